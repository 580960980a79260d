-- Dissector of the packets of Tributary's secure faces for Wireshark and tshark. It shows whose sessions they belong to and
-- that they are encrypted; nobody but the two neighbours can read what is in them.
--
--   tshark -X lua_script:docs/wireshark/tributary-secure.lua -X lua_script:docs/wireshark/tributary-psi.lua -r packets.pcapng
--
-- The dissectors of the three families hand such packets to this one, so it needs no port. The formats are those of
-- crates/secure/src/wire.rs.
local secure = Proto("tribsec", "Tributary secure face")

local types = {
    [0xd0] = "Initiation", [0xd1] = "Cookie", [0xd2] = "Response", [0xd3] = "Finish", [0xd4] = "Data", [0xd5] = "Clear",
    [0xd6] = "Control", [0xd7] = "Unknown session",
}
local f = secure.fields
f.type = ProtoField.uint8("tribsec.type", "Type", base.HEX, types)
f.length = ProtoField.uint8("tribsec.length", "Length of the rest")
f.version = ProtoField.uint8("tribsec.version", "Version")
f.session = ProtoField.uint24("tribsec.session", "Session of the receiver", base.HEX)
f.sender = ProtoField.uint24("tribsec.sender", "Session of the sender", base.HEX)
f.cookie = ProtoField.bytes("tribsec.cookie", "Cookie")
f.noise = ProtoField.bytes("tribsec.noise", "Noise handshake")
f.number = ProtoField.uint32("tribsec.number", "Number")
f.encrypted = ProtoField.bytes("tribsec.encrypted", "Encrypted")
f.clear = ProtoField.bytes("tribsec.clear", "Authenticated, not encrypted")
f.tag = ProtoField.bytes("tribsec.tag", "Authentication tag")

local short = ProtoExpert.new("tribsec.short", "the packet ends too early", expert.group.MALFORMED, expert.severity.ERROR)
secure.experts = { short }

local function protected(field)
    return function(buffer, tree)
        tree:add(f.session, buffer(1, 3))
        tree:add(f.number, buffer(4, 4))
        local bytes = buffer:len() - 8 - 16
        if bytes > 0 then tree:add(field, buffer(8, bytes)) end
        tree:add(f.tag, buffer(8 + bytes, 16))
        local what = field == f.clear and "authenticated" or "encrypted"
        return string.format(" %u, %u bytes, %s", buffer(4, 4):uint(), bytes, what)
    end
end
local body = {
    [0xd0] = function(buffer, tree)
        tree:add(f.length, buffer(1, 1))
        tree:add(f.version, buffer(2, 1))
        tree:add(f.sender, buffer(3, 3))
        tree:add(f.cookie, buffer(6, 17))
        tree:add(f.noise, buffer(23, 32))
        return ""
    end,
    [0xd1] = function(buffer, tree)
        tree:add(f.length, buffer(1, 1))
        tree:add(f.session, buffer(2, 3))
        tree:add(f.cookie, buffer(5, 17))
        return ""
    end,
    [0xd2] = function(buffer, tree)
        tree:add(f.session, buffer(1, 3))
        tree:add(f.sender, buffer(4, 3))
        tree:add(f.noise, buffer(7))
        return ""
    end,
    [0xd3] = function(buffer, tree)
        tree:add(f.session, buffer(1, 3))
        tree:add(f.noise, buffer(4))
        return ""
    end,
    [0xd4] = protected(f.encrypted),
    [0xd5] = protected(f.clear),
    [0xd6] = protected(f.encrypted),
    [0xd7] = function(buffer, tree)
        tree:add(f.length, buffer(1, 1))
        tree:add(f.session, buffer(2, 3))
        return ""
    end,
}

function secure.dissector(buffer, info, tree)
    local kind = buffer:len() > 0 and buffer(0, 1):uint()
    if not body[kind] then return 0 end
    info.cols.protocol = "TRIB-SEC"
    local branch = tree:add(secure, buffer())
    branch:add(f.type, buffer(0, 1))
    local text = types[kind]
    local fine, more = pcall(body[kind], buffer, branch)
    if fine then text = text .. more else branch:add_proto_expert_info(short) end
    info.cols.info = text
    return buffer:len()
end
