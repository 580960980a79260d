-- Dissector of NDN packets (packet format 0.3, NDNLPv2) with Tributary's headers of PTP, for Wireshark and tshark.
--
--   tshark -X lua_script:docs/wireshark/tributary-ndn.lua -r packets.pcapng
--
-- UDP and TCP port 6363, as NDN has it. Of daemons with other ports, use "Decode As…" or add ports in the protocol's preferences.
-- The formats are those of crates/ndn/src/wire. A packet in pieces is shown piece by piece.
local ndn = Proto("ndn", "Named Data Networking")

local contents = {
    [0] = "blob", [1] = "link", [2] = "key", [3] = "application Nack", [4] = "manifest", [1024] = "FLIC",
}
local signatures = {
    [0] = "SHA-256", [1] = "RSA with SHA-256", [3] = "ECDSA with SHA-256", [4] = "HMAC with SHA-256", [5] = "Ed25519",
    [200] = "null",
}
-- From 200 on: why the producer cannot deliver its object.
local reasons = { [50] = "congestion", [100] = "duplicate", [150] = "no route", [200] = "unavailable" }
local origins = { [1] = "a cache", [2] = "another Interest" }

local f = ndn.fields
f.type = ProtoField.uint32("ndn.type", "Type of the packet", base.DEC, { [5] = "Interest", [6] = "Data", [100] = "LpPacket" })
f.name = ProtoField.string("ndn.name", "Name")
f.component = ProtoField.string("ndn.component", "Component")
f.unknown = ProtoField.bytes("ndn.element", "Element")
-- By the type of the element: name of the field, title, and how its value is shown.
local elements = {
    [10] = { "nonce", "Nonce", "hex" },
    [12] = { "lifetime", "Lifetime (ms)", "number" },
    [18] = { "must_be_fresh", "Must be fresh", "flag" },
    [20] = { "meta_info", "MetaInfo", "group" },
    [21] = { "content", "Content", "bytes" },
    [22] = { "signature_info", "SignatureInfo", "group" },
    [23] = { "signature", "Signature", "bytes" },
    [24] = { "content_type", "Content type", "number", contents },
    [25] = { "freshness", "Freshness period (ms)", "number" },
    [26] = { "final_block", "Last component", "component" },
    [27] = { "signature_type", "Signature type", "number", signatures },
    [28] = { "key_locator", "Key locator", "group" },
    [29] = { "key_digest", "Key digest", "bytes" },
    [30] = { "forwarding_hint", "Forwarding hint", "group" },
    [33] = { "can_be_prefix", "Can be a prefix", "flag" },
    [34] = { "hop_limit", "Hop limit", "number" },
    [36] = { "parameters", "Application parameters", "bytes" },
    [38] = { "signature_nonce", "Signature nonce", "bytes" },
    [40] = { "signature_time", "Signature time (ms)", "number" },
    [42] = { "signature_sequence", "Signature sequence number", "number" },
    [44] = { "interest_signature_info", "InterestSignatureInfo", "group" },
    [46] = { "interest_signature", "Signature of the Interest", "bytes" },
    [80] = { "fragment", "Fragment", "fragment" },
    [81] = { "lp.sequence", "Sequence", "number" },
    [82] = { "lp.piece", "Piece", "number" },
    [83] = { "lp.pieces", "Pieces", "number" },
    [98] = { "lp.pit_token", "PIT token", "bytes" },
    [253] = { "validity", "Validity period", "group" },
    [254] = { "not_before", "Not before", "text" },
    [255] = { "not_after", "Not after", "text" },
    [800] = { "lp.nack", "Nack", "nack" },
    [801] = { "lp.nack_reason", "Reason", "number", reasons },
    [812] = { "lp.incoming_face", "Incoming face", "number" },
    [816] = { "lp.next_hop_face", "Next hop face", "number" },
    [820] = { "lp.cache_policy", "Cache policy", "group" },
    [821] = { "lp.cache_policy_type", "Cache policy type", "number" },
    [832] = { "lp.congestion_mark", "Congestion mark", "number" },
    [836] = { "lp.ack", "Ack", "number" },
    [840] = { "lp.tx_sequence", "TxSequence", "number" },
    [844] = { "lp.non_discovery", "Non-discovery", "flag" },
    [848] = { "lp.prefix_announcement", "Prefix announcement", "bytes" },
    [0x0380] = { "ptp.tag", "Path tag", "bytes" },
    [0x0384] = { "ptp.tag_bits", "Path tag in bits", "bytes" },
    [0x0388] = { "ptp.probe", "Path probe", "flag" },
    [0x038c] = { "ptp.origin", "Origin", "number", origins },
    [0x0390] = { "ptp.failed", "Path failed", "flag" },
    [0x0394] = { "mtu.probe", "MTU probe", "leading" },
    [0x0398] = { "mtu.answer", "MTU answer", "leading" },
    [0x039c] = { "boot.probe", "Boot number probe", "leading" },
    [0x03a0] = { "boot.answer", "Boot number answer", "leading" },
    [0x03a4] = { "ptp.rates", "Rates of the path", "bytes" },
    [0x03a8] = { "rate.probe", "Rate probe", "leading" },
    [0x03ac] = { "rate.answer", "Rate answer", "leading" },
}
for _, element in pairs(elements) do
    local name, title, how, values = "ndn." .. element[1], element[2], element[3], element[4]
    local made
    if how == "number" then
        made = ProtoField.uint64(name, title, base.DEC, values)
    elseif how == "leading" then
        made = ProtoField.uint32(name, title)
    elseif how == "hex" then
        made = ProtoField.uint32(name, title, base.HEX)
    elseif how == "flag" or how == "group" or how == "nack" then
        made = ProtoField.none(name, title)
    elseif how == "component" or how == "text" then
        made = ProtoField.string(name, title)
    else
        made = ProtoField.bytes(name, title)
    end
    element.field = made
    f[#f + 1] = made
end

local short = ProtoExpert.new("ndn.short", "the packet ends too early, or is none", expert.group.MALFORMED, expert.severity.ERROR)
ndn.experts = { short }

-- The number at a place, and the place behind it.
local function number(buffer, at)
    local first = buffer(at, 1):uint()
    if first < 253 then return first, at + 1 end
    if first == 253 then return buffer(at + 1, 2):uint(), at + 3 end
    if first == 254 then return buffer(at + 1, 4):uint(), at + 5 end
    local large = buffer(at + 1, 8):uint64()
    if large > UInt64.new(0xffffffff) then error("a number is too large", 0) end
    return large:tonumber(), at + 9
end
-- Calls `visit` with type, value and the whole element for each element from `at` to `till`.
local function each(buffer, at, till, visit)
    while at < till do
        local begin = at
        local kind, bytes
        kind, at = number(buffer, at)
        bytes, at = number(buffer, at)
        if at + bytes > till then error("an element ends too late", 0) end
        visit(kind, at, bytes, buffer(begin, at + bytes - begin))
        at = at + bytes
    end
end

local prefixes = { [50] = "seg=", [52] = "off=", [54] = "v=", [56] = "t=", [58] = "seq=" }
-- A component as URIs of NDN have it.
local function component(buffer, kind, at, bytes)
    if kind == 1 or kind == 2 then
        local digest = bytes > 0 and buffer(at, bytes):bytes():tohex(true) or ""
        return (kind == 1 and "sha256digest=" or "params-sha256=") .. digest
    end
    if prefixes[kind] and (bytes == 1 or bytes == 2 or bytes == 4 or bytes == 8) then
        return prefixes[kind] .. tostring(buffer(at, bytes):uint64())
    end
    local text, only_dots = {}, true
    for offset = 0, bytes - 1 do
        local byte = buffer(at + offset, 1):uint()
        local char = string.char(byte)
        only_dots = only_dots and char == "."
        text[#text + 1] = char:match("[%w%-%._~]") or string.format("%%%02X", byte)
    end
    if only_dots then text[#text + 1] = "..." end
    return (kind == 8 and "" or kind .. "=") .. table.concat(text)
end
local function name(buffer, at, bytes, tree, whole)
    local parts = {}
    each(buffer, at, at + bytes, function(kind, place, length)
        parts[#parts + 1] = component(buffer, kind, place, length)
    end)
    local text = "/" .. table.concat(parts, "/")
    tree:add(f.name, whole, text)
    return text
end

local packet
-- Adds the elements of a range to a tree. `found` collects the packet's summary line.
local function add(buffer, at, till, tree, found)
    each(buffer, at, till, function(kind, place, bytes, whole)
        local element = elements[kind]
        if kind == 7 then
            found.name = found.name or name(buffer, place, bytes, tree, whole)
            if found.inner then name(buffer, place, bytes, tree, whole) end
            return
        elseif not element then
            tree:add(f.unknown, whole):prepend_text(string.format("Type %u, ", kind))
            return
        end
        local how, value = element[3], bytes > 0 and buffer(place, bytes) or nil
        if how == "flag" then
            tree:add(element.field, whole)
            found.marks[#found.marks + 1] = element[2]:lower()
        elseif how == "group" or how == "nack" then
            local branch = tree:add(element.field, whole)
            if how == "nack" then found.nack = true end
            add(buffer, place, place + bytes, branch, { name = "", inner = true, marks = {} })
        elseif how == "fragment" then
            found.fragment = { place, bytes }
            if value then tree:add(element.field, value) end
        elseif not value then
            tree:add(f.unknown, whole)
        elseif how == "number" then
            local branch = tree:add(element.field, whole, value:uint64())
            if element[4] and not element[4][value:uint64():tonumber()] then branch:append_text(" (not known)") end
        elseif how == "hex" then
            tree:add(element.field, value)
        elseif how == "leading" then
            tree:add(element.field, buffer(place, 4))
            found.marks[#found.marks + 1] = element[2]
        elseif how == "component" then
            each(buffer, place, place + bytes, function(inner, first, length)
                tree:add(element.field, whole, component(buffer, inner, first, length))
            end)
        elseif how == "text" then
            tree:add(element.field, value)
        else
            tree:add(element.field, value)
        end
    end)
end

-- One packet at a place; gives what a line about it says, and the place behind it.
function packet(buffer, at, tree)
    local begin = at
    local kind, bytes
    kind, at = number(buffer, at)
    bytes, at = number(buffer, at)
    if kind ~= 5 and kind ~= 6 and kind ~= 100 then error("no packet of NDN", 0) end
    local whole = buffer(begin, at + bytes - begin)
    local branch = tree:add(ndn, whole)
    branch:add(f.type, whole, kind)
    local found = { marks = {} }
    add(buffer, at, at + bytes, branch, found)
    local marks = #found.marks > 0 and " (" .. table.concat(found.marks, ", ") .. ")" or ""
    if kind == 5 then return "Interest " .. (found.name or "") .. marks, at + bytes end
    if kind == 6 then return "Data " .. (found.name or ""), at + bytes end
    local text = bytes == 0 and "idle" or "LP"
    if found.fragment then
        local place, length = found.fragment[1], found.fragment[2]
        local inner = length > 0 and buffer(place, 1):uint()
        if inner == 5 or inner == 6 then
            -- The first piece of a packet ends before the packet does.
            local fine, more = pcall(packet, buffer, place, branch)
            text = fine and more or (inner == 5 and "Interest" or "Data") .. ", first piece"
        else
            text = "piece of a packet"
        end
    end
    return (found.nack and "Nack of " or "") .. text .. marks, at + bytes
end

function ndn.dissector(buffer, info, tree)
    if buffer:len() < 2 then return 0 end
    local first = buffer(0, 1):uint()
    if first >= 0xd0 and first <= 0xd7 then
        -- Encrypted between the neighbours of a secure face.
        local found, secure = pcall(Dissector.get, "tribsec")
        info.cols.protocol = "NDN"
        info.cols.info = "encrypted"
        if not found or not secure then return buffer:len() end
        return secure:call(buffer, info, tree)
    end
    if first ~= 5 and first ~= 6 and first ~= 100 then return 0 end
    info.cols.protocol = "NDN"
    local texts, at = {}, 0
    -- A segment of TCP may have several packets.
    while at < buffer:len() do
        local fine, text, behind = pcall(packet, buffer, at, tree)
        if not fine then
            tree:add(ndn, buffer(at)):add_proto_expert_info(short)
            texts[#texts + 1] = "cut"
            break
        end
        texts[#texts + 1], at = text, behind
    end
    info.cols.info = table.concat(texts, "; ")
    return buffer:len()
end

DissectorTable.get("udp.port"):add(6363, ndn)
DissectorTable.get("tcp.port"):add(6363, ndn)
