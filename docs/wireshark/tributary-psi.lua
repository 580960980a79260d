-- Dissector of Tributary's PSI packets for Wireshark and tshark.
--
--   tshark -X lua_script:docs/wireshark/tributary-psi.lua -r packets.pcapng
--
-- Captures of `trib sim --pcap` have PSI on UDP port 7001. Of daemons, whose ports are those of their configs, use
-- "Decode As…" or add ports in the protocol's preferences. The formats are those of crates/psi/src/wire.
local psi = Proto("psi", "Tributary PSI")

local types = { [1] = "Hello", [2] = "Beacon", [3] = "Control", [4] = "Request", [5] = "Data" }
local kinds = { [0] = "Bloom filter", [1] = "bitmap", [2] = "list" }
local f = psi.fields
f.version = ProtoField.uint8("psi.version", "Version", base.DEC, nil, 0xf0)
f.type = ProtoField.uint8("psi.type", "Type", base.DEC, types, 0x0f)
f.no_cache = ProtoField.bool("psi.no_cache", "No cache may answer", 8, nil, 0x01)
f.cached = ProtoField.bool("psi.cached", "From a cache", 8, nil, 0x02)
f.marked = ProtoField.bool("psi.marked", "Marked", 8, nil, 0x04)
f.ttl = ProtoField.uint8("psi.ttl", "Hops left")
f.fid_kind = ProtoField.uint8("psi.fid.kind", "FID kind", base.DEC, kinds, 0xc0)
f.fid_length = ProtoField.uint8("psi.fid.length", "FID length", base.DEC)
f.fid_salt = ProtoField.uint8("psi.fid.salt", "FID salt")
f.fid = ProtoField.bytes("psi.fid", "FID")
f.tag = ProtoField.uint32("psi.tag", "Tag", base.HEX)
f.packet = ProtoField.uint32("psi.packet", "Packet")
f.stream = ProtoField.bytes("psi.stream", "Stream key")
f.origin = ProtoField.uint16("psi.origin", "Origin", base.HEX)
f.payload = ProtoField.bytes("psi.payload", "Payload")
f.object = ProtoField.bytes("psi.object", "Object")
f.packet_bytes = ProtoField.uint16("psi.packet_bytes", "Packet size")
f.capability = ProtoField.bytes("psi.capability", "Capability")
f.runs = ProtoField.uint8("psi.runs", "Runs")
f.run_first = ProtoField.uint32("psi.run.first", "First packet")
f.run_count = ProtoField.uint8("psi.run.count", "Packets")
f.node = ProtoField.uint64("psi.node", "Node", base.HEX)
f.nonce = ProtoField.uint64("psi.nonce", "Nonce", base.HEX)
f.face = ProtoField.uint32("psi.face", "Face")
f.roles = ProtoField.uint8("psi.roles", "Roles", base.HEX)
f.label = ProtoField.string("psi.label", "Label")
f.sent = ProtoField.uint64("psi.sent_us", "Sent (µs)")
f.body = ProtoField.bytes("psi.body", "Body")

local short = ProtoExpert.new("psi.short", "the packet ends too early", expert.group.MALFORMED, expert.severity.ERROR)
psi.experts = { short }

-- Reads kind, length, salt and bytes of an FID; gives the offset behind it.
local function fid(buffer, tree, at, title)
    local length = bit.band(buffer(at, 1):uint(), 0x3f) * 2
    local branch = tree:add(psi, buffer(at, 2 + length), title)
    branch:add(f.fid_kind, buffer(at, 1))
    branch:add(f.fid_length, buffer(at, 1), length)
    branch:add(f.fid_salt, buffer(at + 1, 1))
    if length > 0 then branch:add(f.fid, buffer(at + 2, length)) end
    return at + 2 + length
end

local body = {}
body[5] = function(buffer, tree, at, info)
    tree:add(f.tag, buffer(at, 4))
    tree:add(f.packet, buffer(at + 4, 4))
    tree:add(f.stream, buffer(at + 8, 6))
    tree:add(f.origin, buffer(at + 14, 2))
    if buffer:len() > at + 16 then tree:add(f.payload, buffer(at + 16)) end
    return string.format(" packet %u, %u bytes", buffer(at + 4, 4):uint(), buffer:len() - at - 16)
end
body[4] = function(buffer, tree, at, info)
    tree:add(f.tag, buffer(at, 4))
    tree:add(f.object, buffer(at + 4, 16))
    tree:add(f.packet_bytes, buffer(at + 20, 2))
    tree:add(f.capability, buffer(at + 22, 8))
    at = fid(buffer, tree, at + 30, "Forward FID")
    local runs, asked = buffer(at, 1):uint(), {}
    tree:add(f.runs, buffer(at, 1))
    for run = 0, runs - 1 do
        local first, count = buffer(at + 1 + 5 * run, 4), buffer(at + 5 + 5 * run, 1)
        local branch = tree:add(psi, buffer(at + 1 + 5 * run, 5), "Run")
        branch:add(f.run_first, first)
        branch:add(f.run_count, count)
        asked[#asked + 1] = string.format("%u+%u", first:uint(), count:uint())
    end
    return " packets " .. table.concat(asked, ", ")
end
body[1] = function(buffer, tree, at, info)
    tree:add(f.node, buffer(at, 8))
    tree:add(f.nonce, buffer(at + 8, 8))
    tree:add(f.face, buffer(at + 16, 4))
    tree:add(f.roles, buffer(at + 20, 1))
    local length = buffer(at + 21, 2):uint()
    tree:add(f.label, buffer(at + 23, length))
    tree:add(f.sent, buffer(at + 23 + length, 8))
    return " from " .. buffer(at + 23, length):string()
end

function psi.dissector(buffer, info, tree)
    if buffer:len() < 5 then return 0 end
    local first = buffer(0, 1):uint()
    if first >= 0xd0 and first <= 0xd7 then
        -- Encrypted between the neighbours of a secure face.
        local found, secure = pcall(Dissector.get, "tribsec")
        info.cols.protocol = "PSI"
        info.cols.info = "encrypted"
        if not found or not secure then return buffer:len() end
        return secure:call(buffer, info, tree)
    end
    -- What these versions differ in is within control messages, which are not read here.
    local version = bit.rshift(buffer(0, 1):uint(), 4)
    if version < 1 or version > 4 then return 0 end
    info.cols.protocol = "PSI"
    local kind = bit.band(buffer(0, 1):uint(), 0x0f)
    local branch = tree:add(psi, buffer())
    branch:add(f.version, buffer(0, 1))
    branch:add(f.type, buffer(0, 1))
    branch:add(f.no_cache, buffer(1, 1))
    branch:add(f.cached, buffer(1, 1))
    branch:add(f.marked, buffer(1, 1))
    branch:add(f.ttl, buffer(2, 1))
    local text = types[kind] or string.format("type %u", kind)
    -- A packet that is cut shows what there is of it.
    local fine, more = pcall(function()
        local at = fid(buffer, branch, 3, "FID")
        if body[kind] then return body[kind](buffer, branch, at, info) end
        if buffer:len() > at then branch:add(f.body, buffer(at)) end
        return ""
    end)
    if fine then text = text .. more else branch:add_proto_expert_info(short) end
    info.cols.info = text
    return buffer:len()
end

DissectorTable.get("udp.port"):add(7001, psi)
