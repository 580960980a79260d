-- Dissector of Tributary's MobilityFirst packets for Wireshark and tshark.
--
--   tshark -X lua_script:docs/wireshark/tributary-mf.lua -r packets.pcapng
--
-- Captures of `trib sim --pcap` have MobilityFirst on UDP port 7002, as the examples have it. Of daemons with other ports, use
-- "Decode As…" or add ports in the protocol's preferences. The formats are those of crates/mf/src/wire. The header of a chunk and
-- what it carries are shown in its packet 0; what continues in later packets is shown as their bytes.
local mf = Proto("mf", "Tributary MobilityFirst")

local types = { [1] = "Hello", [2] = "Data", [3] = "CSYN", [4] = "CACK", [5] = "MTU" }
local states = { [0] = "partial", [1] = "complete", [2] = "refused", [3] = "held", [4] = "window" }
local services = {
    [0] = "unicast", [1] = "multicast", [2] = "anycast", [4] = "multihoming", [0x200] = "content request",
    [0x400] = "content response",
}
local chunks = { [0] = "data", [1] = "transport", [2] = "names", [3] = "link state" }
local reliabilities = { [0] = "don't care", [1] = "NACK", [2] = "ACK" }
local transports = {
    [1] = "Request", [2] = "Status", [3] = "Ack", [4] = "Stored", [5] = "Dropped", [6] = "Push", [7] = "Unavailable",
    [8] = "Completed", [9] = "Custody", [10] = "Unreadable", [11] = "Kept for",
}
local custody = { [0] = "refused", [1] = "taken", [2] = "over", [3] = "lost", [4] = "ready" }
local names = {
    [1] = "Put", [2] = "Done", [3] = "Stale", [4] = "Refused", [5] = "Lookup", [6] = "Found", [7] = "Watch", [8] = "Notify",
    [9] = "Sealed", [10] = "Next", [11] = "Page", [12] = "Renew", [13] = "Renewed", [14] = "Many",
}
local refusals = {
    [1] = "forged", [2] = "full", [3] = "unreachable", [4] = "misplaced", [5] = "ended", [6] = "engine",
    [7] = "engine full", [8] = "busy",
}
local records = {
    [0] = "device", [1] = "group", [2] = "content", [3] = "deleted", [4] = "content deleted", [5] = "attached",
    [6] = "detached", [7] = "scope", [8] = "scope gone",
}

local f = mf.fields
f.version = ProtoField.uint8("mf.version", "Version", base.DEC, nil, 0xf0)
f.type = ProtoField.uint8("mf.type", "Type", base.DEC, types, 0x0f)
f.control = ProtoField.bool("mf.control", "Message of the network", 8, nil, 0x02)
f.index = ProtoField.uint16("mf.index", "Packet in the chunk")
f.count = ProtoField.uint16("mf.count", "Packets of the chunk")
f.hop = ProtoField.uint32("mf.hop", "Chunk on this hop", base.HEX)
f.csyn = ProtoField.uint32("mf.csyn", "CSYN number")
f.state = ProtoField.uint8("mf.state", "State", base.DEC, states)
f.window = ProtoField.uint32("mf.window", "Window in packets")
f.destination_window = ProtoField.uint32("mf.destination_window", "Window of the destination")
f.duplicates = ProtoField.uint8("mf.duplicates", "Duplicates")
f.marked = ProtoField.uint8("mf.marked", "Marked packets of the link")
f.first_missing = ProtoField.uint16("mf.first_missing", "First missing packet")
f.bitmap = ProtoField.bytes("mf.bitmap", "Bitmap")
f.answer = ProtoField.bool("mf.mtu.answer", "Answer")
f.number = ProtoField.uint32("mf.number", "Number")
f.padding = ProtoField.bytes("mf.padding", "Padding")
f.payload = ProtoField.bytes("mf.payload", "Payload")
-- Hello
f.router = ProtoField.bool("mf.roles.router", "Router", 8, nil, 0x01)
f.resolver = ProtoField.bool("mf.roles.resolver", "Resolver", 8, nil, 0x02)
f.proxy_role = ProtoField.bool("mf.roles.proxy", "Proxy", 8, nil, 0x04)
f.wants = ProtoField.bool("mf.hello.wants_answer", "Asks for an answer", 8, nil, 0x40)
f.accepts = ProtoField.bool("mf.hello.accepts", "Accepts the neighbour's proof", 8, nil, 0x80)
f.sequence = ProtoField.uint32("mf.hello.sequence", "Sequence")
f.heard = ProtoField.uint32("mf.hello.heard", "Last hello heard")
f.held = ProtoField.uint32("mf.hello.held_us", "Held (µs)")
f.heard_before = ProtoField.uint32("mf.hello.heard_before", "Heard before that", base.HEX)
f.nonce = ProtoField.uint64("mf.hello.nonce", "Nonce", base.HEX)
f.echo = ProtoField.uint64("mf.hello.echo", "Echoed nonce", base.HEX)
f.address = ProtoField.uint32("mf.address", "Network address", base.HEX)
f.datagram = ProtoField.uint16("mf.hello.datagram_bytes", "Longest datagram")
f.key = ProtoField.bytes("mf.key", "Public key")
f.label = ProtoField.string("mf.label", "Label")
f.signature = ProtoField.bytes("mf.signature", "Signature")
-- Chunk header
f.kind = ProtoField.uint8("mf.chunk.kind", "Kind of chunk", base.DEC, chunks)
f.delegate = ProtoField.bool("mf.chunk.delegate", "Delegate", 8, nil, 0x01)
f.no_proxy = ProtoField.bool("mf.chunk.no_proxy", "Not to be stored", 8, nil, 0x02)
f.no_cache = ProtoField.bool("mf.chunk.no_cache", "Past caches", 8, nil, 0x04)
f.cached = ProtoField.bool("mf.chunk.cached", "From a cache", 8, nil, 0x08)
f.repeated = ProtoField.bool("mf.chunk.repeated", "Sent again", 8, nil, 0x10)
f.stored = ProtoField.bool("mf.chunk.stored", "From storage", 8, nil, 0x20)
f.in_custody = ProtoField.bool("mf.chunk.custody", "Names its custodian", 8, nil, 0x40)
f.service = ProtoField.uint16("mf.service", "Service", base.HEX, services)
f.hops = ProtoField.uint8("mf.hops_left", "Hops left")
f.priority = ProtoField.uint8("mf.priority", "Priority")
f.proxies = ProtoField.uint8("mf.proxies_left", "Proxies left")
f.lifetime = ProtoField.uint32("mf.lifetime_ms", "Lifetime (ms)")
f.payload_bytes = ProtoField.uint32("mf.payload_bytes", "Bytes of the payload")
f.source = ProtoField.bytes("mf.source", "Source GUID")
f.destination = ProtoField.bytes("mf.destination", "Destination GUID")
f.object = ProtoField.bytes("mf.object", "Object")
f.transfer = ProtoField.uint32("mf.transfer", "Transfer")
f.token = ProtoField.uint64("mf.token", "Token", base.HEX)
f.chunk = ProtoField.uint32("mf.chunk", "Chunk")
f.chunk_count = ProtoField.uint32("mf.chunk.count", "Chunks of the object")
f.chunk_bytes = ProtoField.uint32("mf.chunk.bytes", "Bytes of the object in a chunk")
f.reliability = ProtoField.uint8("mf.reliability", "Reliability", base.DEC, reliabilities)
f.flow_window = ProtoField.uint16("mf.flow_window", "Window")
f.window_chunks = ProtoField.uint16("mf.window_chunks", "Chunks of the window")
f.custodian = ProtoField.bytes("mf.custodian", "Custodian")
-- Messages
f.transport = ProtoField.uint8("mf.transport", "Transport message", base.DEC, transports)
f.run_first = ProtoField.uint32("mf.run.first", "First chunk")
f.run_count = ProtoField.uint32("mf.run.count", "Chunks")
f.buffer = ProtoField.uint16("mf.buffer_chunks", "Chunks of the buffer")
f.advice = ProtoField.uint16("mf.advice_chunks", "Advised window in chunks")
f.status = ProtoField.uint32("mf.status", "Number of the status")
f.complete = ProtoField.bool("mf.complete", "Complete")
f.proxy = ProtoField.bytes("mf.proxy", "Proxy")
f.member = ProtoField.bytes("mf.member", "Member")
f.custody_state = ProtoField.uint8("mf.custody", "Custody", base.DEC, custody)
f.reason = ProtoField.uint8("mf.reason", "Reason")
f.name_message = ProtoField.uint8("mf.names", "Message about names", base.DEC, names)
f.request = ProtoField.uint32("mf.request", "Request")
f.place = ProtoField.bytes("mf.place", "Place")
f.replicas = ProtoField.uint8("mf.replicas", "Replicas")
f.known = ProtoField.uint64("mf.known", "Version or digest known")
f.refusal = ProtoField.uint8("mf.refusal", "Refusal", base.DEC, refusals)
f.lease = ProtoField.uint32("mf.lease_ms", "Lease (ms)")
f.ends = ProtoField.uint8("mf.page.ends", "Ends of the page", base.HEX)
f.author = ProtoField.bytes("mf.author", "Author")
f.guid = ProtoField.bytes("mf.guid", "GUID")
f.bucket = ProtoField.uint16("mf.bucket", "Bucket")
f.bucket_count = ProtoField.uint32("mf.bucket.count", "Records in the bucket")
f.bucket_sum = ProtoField.uint64("mf.bucket.sum", "Digest of the bucket", base.HEX)
f.life = ProtoField.uint64("mf.life", "Life", base.HEX)
f.sealed_number = ProtoField.uint64("mf.sealed.number", "Number of the message")
f.record = ProtoField.bytes("mf.record", "Record")
f.record_kind = ProtoField.uint8("mf.record.kind", "Kind of record", base.DEC, records, 0x3f)
f.record_readers = ProtoField.bool("mf.record.readers", "Names its readers", 8, nil, 0x80)
f.record_ends = ProtoField.bool("mf.record.has_end", "Has an end", 8, nil, 0x40)
f.record_version = ProtoField.uint64("mf.record.version", "Version of the record")
f.record_body = ProtoField.bytes("mf.record.body", "Body, and readers")
f.code = ProtoField.bytes("mf.code", "Code")
f.certificate = ProtoField.bytes("mf.certificate", "Certificate")
f.boot = ProtoField.uint64("mf.boot", "Boot number", base.HEX)
f.state_number = ProtoField.uint64("mf.link_state.sequence", "Sequence")
f.storage_free = ProtoField.uint8("mf.storage_free", "Free storage (%)")
f.neighbour = ProtoField.uint32("mf.neighbour", "Neighbour", base.HEX)
f.sett = ProtoField.uint32("mf.sett_us", "SETT (µs)")
f.lett = ProtoField.uint32("mf.lett_us", "LETT (µs)")

local short = ProtoExpert.new("mf.short", "the packet ends too early", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("mf.unknown", "not known", expert.group.UNDECODED, expert.severity.WARN)
mf.experts = { short, unknown }

-- A place in a buffer that moves on as fields are added. Reading beyond the end is an error of Lua, which the caller catches.
local Cursor = {}
Cursor.__index = Cursor
local function cursor(buffer, at) return setmetatable({ buffer = buffer, at = at or 0 }, Cursor) end
function Cursor:left() return self.buffer:len() - self.at end
function Cursor:take(bytes)
    local range = self.buffer(self.at, bytes)
    self.at = self.at + bytes
    return range
end
-- Adds a field of this length; returns its bytes.
function Cursor:add(tree, field, bytes)
    if bytes == 0 then return nil end
    local range = self:take(bytes)
    tree:add(field, range)
    return range
end
function Cursor:number(tree, field, bytes) return self:add(tree, field, bytes):uint() end
-- Bytes with their length in two bytes in front.
function Cursor:blob(tree, field)
    local bytes = self:take(2):uint()
    return self:add(tree, field, bytes)
end
function Cursor:roles(tree)
    local roles = self:take(1)
    for _, field in ipairs({ f.router, f.resolver, f.proxy_role }) do tree:add(field, roles) end
    return roles
end

local function runs(at, tree)
    local text = {}
    for _ = 1, at:take(1):uint() do
        local branch = tree:add(mf, at.buffer(at.at, 8), "Run")
        local first, count = at:number(branch, f.run_first, 4), at:number(branch, f.run_count, 4)
        text[#text + 1] = count == 1 and tostring(first) or string.format("%u+%u", first, count)
    end
    return #text > 0 and " chunks " .. table.concat(text, ", ") or ""
end
local function flow(at, tree)
    at:add(tree, f.source, 20)
    at:add(tree, f.destination, 20)
end

-- The rest of each transport message, behind transfer and object.
local transport = {
    [1] = function(at, tree)
        at:add(tree, f.chunk_bytes, 4)
        at:add(tree, f.reliability, 1)
        at:add(tree, f.buffer, 2)
        return runs(at, tree)
    end,
    [2] = function(at, tree)
        at:add(tree, f.flow_window, 2)
        at:add(tree, f.advice, 2)
        at:add(tree, f.status, 4)
        return runs(at, tree)
    end,
    [3] = function(at, tree)
        local complete = at:number(tree, f.complete, 1)
        return (complete == 1 and " complete" or "") .. runs(at, tree)
    end,
    [4] = function(at, tree)
        flow(at, tree)
        at:add(tree, f.proxy, 20)
        at:add(tree, f.address, 4)
        return runs(at, tree)
    end,
    [5] = function(at, tree)
        flow(at, tree)
        at:add(tree, f.proxy, 20)
        return runs(at, tree)
    end,
    [6] = function(at, tree)
        flow(at, tree)
        return runs(at, tree)
    end,
    [7] = function() return "" end,
    [8] = function(at, tree)
        for _ = 1, at:take(1):uint() do at:add(tree, f.member, 20) end
        return ""
    end,
    [9] = function(at, tree)
        flow(at, tree)
        local state = at:number(tree, f.custody_state, 1)
        return " " .. (custody[state] or "?") .. runs(at, tree)
    end,
    [10] = function(at, tree)
        at:add(tree, f.reason, 1)
        return ""
    end,
    [11] = function(at, tree)
        flow(at, tree)
        return string.format(" %u ms", at:number(tree, f.lifetime, 4))
    end,
}
local function transport_message(at, tree)
    local kind = at:number(tree, f.transport, 1)
    at:add(tree, f.transfer, 4)
    at:add(tree, f.object, 16)
    if not transport[kind] then
        tree:add_proto_expert_info(unknown)
        return "transport message " .. kind
    end
    return transports[kind] .. transport[kind](at, tree)
end

local function record(at, tree)
    local bytes = at:take(2):uint()
    if bytes == 0 then return end
    local branch = tree:add(f.record, at.buffer(at.at, bytes))
    local inner = cursor(at:take(bytes):tvb())
    -- Kind, key, version, lifetime, a label of no bytes, a signature.
    if bytes < 1 + 32 + 8 + 4 + 2 + 64 then return end
    local kind = inner:take(1)
    for _, field in ipairs({ f.record_kind, f.record_readers, f.record_ends }) do branch:add(field, kind) end
    inner:add(branch, f.key, 32)
    inner:add(branch, f.record_version, 8)
    inner:add(branch, f.lifetime, 4)
    if bit.band(kind:uint(), 0x40) ~= 0 then inner:take(8) end
    inner:blob(branch, f.label)
    inner:add(branch, f.record_body, inner:left() - 64)
    inner:add(branch, f.signature, 64)
end
local function record_list(at, tree)
    local count = at:take(1):uint()
    for _ = 1, count do record(at, tree) end
    return string.format(", %u records", count)
end
local function record_key(at, tree)
    at:add(tree, f.author, 20)
    at:add(tree, f.guid, 20)
end
local name_message
local name_body = {
    [1] = function(at, tree)
        at:add(tree, f.place, 20)
        record(at, tree)
    end,
    [2] = function(at, tree) at:add(tree, f.replicas, 1) end,
    [3] = function(at, tree) at:add(tree, f.known, 8) end,
    [4] = function(at, tree) return " " .. (refusals[at:number(tree, f.refusal, 1)] or "?") end,
    [5] = function(at, tree) at:add(tree, f.place, 20) end,
    [6] = function(at, tree)
        at:add(tree, f.place, 20)
        return record_list(at, tree)
    end,
    [7] = function(at, tree)
        at:add(tree, f.place, 20)
        at:add(tree, f.lease, 4)
        at:add(tree, f.known, 8)
    end,
    [10] = function(at, tree)
        at:add(tree, f.place, 20)
        record_key(at, tree)
    end,
    [11] = function(at, tree)
        at:add(tree, f.place, 20)
        local ends = at:number(tree, f.ends, 1)
        if bit.band(ends, 1) ~= 0 then record_key(at, tree) end
        if bit.band(ends, 2) ~= 0 then record_key(at, tree) end
        return record_list(at, tree)
    end,
    [12] = function(at, tree)
        at:add(tree, f.author, 20)
        at:add(tree, f.lease, 4)
        local count = at:take(2):uint()
        for _ = 1, count do
            at:add(tree, f.bucket, 2)
            at:add(tree, f.bucket_count, 4)
            at:add(tree, f.bucket_sum, 8)
        end
        return string.format(", %u buckets", count)
    end,
    [13] = function(at, tree)
        local count = at:take(2):uint()
        for _ = 1, count do at:add(tree, f.bucket, 2) end
        return string.format(", %u buckets missing", count)
    end,
}
function name_message(at, tree)
    local kind = at:number(tree, f.name_message, 1)
    local title = names[kind] or string.format("message %u about names", kind)
    if kind == 8 then
        at:add(tree, f.place, 20)
        record(at, tree)
        return title
    elseif kind == 9 then
        for _ = 1, 2 do
            at:add(tree, f.address, 4)
            at:add(tree, f.life, 8)
        end
        at:add(tree, f.sealed_number, 8)
        -- It is authenticated, not encrypted. A part of a message has no code.
        if at:left() <= 8 then return title end
        local inner = cursor(at.buffer(at.at, at:left() - 8):tvb())
        local fine, text = pcall(name_message, inner, tree)
        at.at = at.buffer:len() - 8
        at:add(tree, f.code, 8)
        return fine and text or title
    elseif kind == 14 then
        local texts = {}
        for _ = 1, at:take(2):uint() do
            local bytes = at:take(2):uint()
            local branch = tree:add(mf, at.buffer(at.at, bytes), "Message")
            texts[#texts + 1] = name_message(cursor(at:take(bytes):tvb()), branch)
        end
        return table.concat(texts, ", ")
    elseif not name_body[kind] then
        tree:add_proto_expert_info(unknown)
        return title
    end
    at:add(tree, f.request, 4)
    return title .. (name_body[kind](at, tree) or "")
end

local function adjacencies(at, tree)
    at:add(tree, f.address, 4)
    at:add(tree, f.guid, 20)
    at:add(tree, f.state_number, 8)
    at:add(tree, f.boot, 8)
    at:roles(tree)
    at:add(tree, f.storage_free, 1)
    local label = at:blob(tree, f.label)
    for _ = 1, at:take(1):uint() do
        local branch = tree:add(mf, at.buffer(at.at, 12), "Link")
        at:add(branch, f.neighbour, 4)
        at:add(branch, f.sett, 4)
        at:add(branch, f.lett, 4)
    end
    return "of " .. (label and label:string() or "a router")
end
-- In a network with an authority it has its length in front, and a certificate and a signature behind; else a code behind it.
local function link_state(at, tree)
    local bytes = at.buffer(at.at, 2):uint()
    -- Length, fingerprint, length of the certificate, signature.
    if bytes >= 47 and at:left() >= 2 + bytes + 32 + 2 + 64 then
        at:take(2)
        local text = adjacencies(cursor(at:take(bytes):tvb()), tree)
        at:add(tree, f.certificate, at:left() - 64)
        at:add(tree, f.signature, 64)
        return text
    end
    local text = adjacencies(at, tree)
    if at:left() >= 8 then at:add(tree, f.code, 8) end
    return text
end

local function chunk_header(at, tree)
    local kind = at:number(tree, f.kind, 1)
    local flags = at:take(1)
    local marks = { f.delegate, f.no_proxy, f.no_cache, f.cached, f.repeated, f.stored, f.in_custody }
    for _, field in ipairs(marks) do tree:add(field, flags) end
    at:add(tree, f.service, 2)
    at:add(tree, f.hops, 1)
    at:add(tree, f.priority, 1)
    at:add(tree, f.proxies, 1)
    at:add(tree, f.lifetime, 4)
    local payload_bytes = at:number(tree, f.payload_bytes, 4)
    at:add(tree, f.source, 20)
    at:add(tree, f.address, 4)
    at:add(tree, f.destination, 20)
    for _ = 1, at:take(1):uint() do at:add(tree, f.address, 4) end
    local text = chunks[kind] or string.format("kind %u", kind)
    if kind == 0 then
        at:add(tree, f.object, 16)
        at:add(tree, f.transfer, 4)
        at:add(tree, f.token, 8)
        local number, count = at:number(tree, f.chunk, 4), at:number(tree, f.chunk_count, 4)
        at:add(tree, f.chunk_bytes, 4)
        at:add(tree, f.reliability, 1)
        at:add(tree, f.flow_window, 2)
        at:add(tree, f.window_chunks, 2)
        text = string.format("chunk %u of %u", number, count)
        if bit.band(flags:uint(), 0x40) ~= 0 then
            at:add(tree, f.custodian, 20)
            at:add(tree, f.address, 4)
        end
    elseif kind == 1 then
        at:add(tree, f.token, 8)
    end
    return kind, text, payload_bytes
end

local body = {}
body[1] = function(buffer, tree)
    local at = cursor(buffer, 1)
    local roles = at:roles(tree)
    tree:add(f.wants, roles)
    tree:add(f.accepts, roles)
    for _, field in ipairs({ f.sequence, f.heard, f.held, f.heard_before }) do at:add(tree, field, 4) end
    at:add(tree, f.nonce, 8)
    at:add(tree, f.echo, 8)
    at:add(tree, f.address, 4)
    at:add(tree, f.datagram, 2)
    at:add(tree, f.window, 4)
    at:add(tree, f.key, 32)
    local label = at:blob(tree, f.label)
    at:add(tree, f.signature, at:left())
    return label and " from " .. label:string() or ""
end
local payloads = { [1] = transport_message, [2] = name_message, [3] = link_state }
body[2] = function(buffer, tree)
    local at = cursor(buffer, 1)
    at:add(tree, f.control, 1)
    local index, count = at:number(tree, f.index, 2), at:number(tree, f.count, 2)
    at:add(tree, f.hop, 4)
    local csyn = at:number(tree, f.csyn, 4)
    local text = string.format(" %u of %u%s", index + 1, count, csyn ~= 0 and ", CSYN" or "")
    if index > 0 then
        at:add(tree, f.payload, at:left())
        return text
    end
    local branch = tree:add(mf, buffer(at.at), "Chunk")
    local kind, title, payload_bytes = chunk_header(at, branch)
    text = text .. ", " .. title
    if payloads[kind] and at:left() > 0 then
        local first = at.at
        local message = branch:add(mf, buffer(first), "Message")
        local fine, more = pcall(payloads[kind], at, message)
        -- A message that continues in the next packet is cut here without an error.
        if not fine and at.buffer:len() - first >= payload_bytes then error(more, 0) end
        text = fine and text .. (kind == 3 and " " or ": ") .. more or text .. ", cut"
    elseif at:left() > 0 then
        at:add(branch, f.payload, at:left())
    end
    return text
end
body[3] = function(buffer, tree)
    local at = cursor(buffer, 2)
    at:add(tree, f.count, 2)
    at:add(tree, f.hop, 4)
    return string.format(" %u", at:number(tree, f.csyn, 4))
end
body[4] = function(buffer, tree)
    local at = cursor(buffer, 1)
    local state = at:number(tree, f.state, 1)
    at:add(tree, f.hop, 4)
    at:add(tree, f.csyn, 4)
    local window = at:number(tree, f.window, 4)
    at:add(tree, f.destination_window, 4)
    at:add(tree, f.duplicates, 1)
    at:add(tree, f.marked, 1)
    at:add(tree, f.first_missing, 2)
    at:add(tree, f.bitmap, at:left())
    return string.format(" %s, window %u", states[state] or "?", window)
end
body[5] = function(buffer, tree)
    local at = cursor(buffer, 1)
    local answer = at:number(tree, f.answer, 1)
    at:add(tree, f.number, 4)
    at:add(tree, f.padding, at:left())
    return answer == 1 and " answer" or string.format(" probe of %u bytes", buffer:len())
end

function mf.dissector(buffer, info, tree)
    if buffer:len() < 2 then return 0 end
    local first = buffer(0, 1):uint()
    if first >= 0xd0 and first <= 0xd7 then
        -- Encrypted between the neighbours of a secure face.
        local found, secure = pcall(Dissector.get, "tribsec")
        info.cols.protocol = "MF"
        info.cols.info = "encrypted"
        if not found or not secure then return buffer:len() end
        return secure:call(buffer, info, tree)
    end
    local kind = bit.band(first, 0x0f)
    if bit.rshift(first, 4) ~= 4 or not body[kind] then return 0 end
    info.cols.protocol = "MF"
    local branch = tree:add(mf, buffer())
    branch:add(f.version, buffer(0, 1))
    branch:add(f.type, buffer(0, 1))
    local text = types[kind]
    -- A packet that is cut shows what there is of it.
    local fine, more = pcall(body[kind], buffer, branch)
    if fine then text = text .. more else branch:add_proto_expert_info(short) end
    info.cols.info = text
    return buffer:len()
end

DissectorTable.get("udp.port"):add(7002, mf)
