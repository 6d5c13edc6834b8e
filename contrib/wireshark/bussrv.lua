-- Wireshark's view of a bussrv server: Object System, Business Object, Inbus and SPP, objects over WebSocket, and what
-- `bussrv tap -w` writes. Copy this file into Wireshark's folder of personal Lua plugins (Help, About Wireshark,
-- Folders), or name it once: tshark -X lua_script:bussrv.lua. Wireshark 3.6 or newer.
--
-- Attributes that several wire formats have are one field of the protocol "bus", so that a filter such as
-- bus.service == "tv" finds a service in all of them.

set_plugin_info({version = "1.0", description = "Wire formats of the message bus bussrv", author = "bussrv"})

local MOST_METADATA = 128 * 1024 -- Twice the default of --max-metadata: servers add to what clients send.
local MOST_NESTING = 64
local LONGEST_SHOWN = 80

-- Fields ------------------------------------------------------------------------------------------------------------

local bus = Proto("bus", "Message bus")

local text = {
    event = "Event", type = "Content type", service = "Service", id = "Id", to = "To", route = "Route",
    ["routing-id"] = "Routing id", reason = "Reason of the error", message = "Message of the error",
}
local f = {}
for key, name in pairs(text) do
    f[key] = ProtoField.string("bus." .. key:gsub("-", "_"), name, base.UNICODE)
end
f.in_reply_to = ProtoField.string("bus.in_reply_to", "In reply to", base.UNICODE)
f.metadata = ProtoField.string("bus.metadata", "Metadata", base.UNICODE)
f.size = ProtoField.uint64("bus.size", "Size of the payload")
f.payload = ProtoField.bytes("bus.payload", "Payload")
f.opcode = ProtoField.uint32("bus.inbus.opcode", "Opcode", base.DEC, {"subscribe", "unsubscribe", "publish"})
f.version = ProtoField.uint32("bus.inbus.version", "Version")
f.app_type = ProtoField.int64("bus.inbus.app_type", "App-type")
f.host = ProtoField.string("bus.inbus.host", "Host of the subscriber")
f.port = ProtoField.uint32("bus.inbus.port", "Port of the subscriber")
f.msgtype = ProtoField.uint32("bus.spp.msgtype", "Message type")
f.length = ProtoField.uint32("bus.spp.length", "Length")
f.user = ProtoField.string("bus.spp.user", "User", base.UNICODE)
f.code = ProtoField.uint32("bus.spp.code", "Result", base.DEC, {[0] = "accepted", [1] = "refused", [2] = "unchecked"})
f.answered = ProtoField.framenum("bus.answered_in", "Answered in", base.NONE, frametype.RESPONSE)
f.asked = ProtoField.framenum("bus.asked_in", "Asked in", base.NONE, frametype.REQUEST)
f.time = ProtoField.relative_time("bus.answer_time", "Time of the answer")

local malformed = ProtoExpert.new("bus.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local unusual = ProtoExpert.new("bus.unusual", "Unusual", expert.group.PROTOCOL, expert.severity.NOTE)
local partial = ProtoExpert.new("bus.not_captured", "Not captured", expert.group.UNDECODED, expert.severity.NOTE)

local fields = {}
for _, field in pairs(f) do
    fields[#fields + 1] = field
end
bus.fields = fields
bus.experts = {malformed, unusual, partial}

-- JSON --------------------------------------------------------------------------------------------------------------
-- Wireshark shows no dissector what its own reader of JSON found. This one remembers where each value stands.

local ESCAPES = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}

local function utf8_of(code)
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xC0 + math.floor(code / 0x40), 0x80 + code % 0x40)
    elseif code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 0x1000), 0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
    end
    return string.char(
        0xF0 + math.floor(code / 0x40000), 0x80 + math.floor(code / 0x1000) % 0x40,
        0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
end

local function fault(what, at)
    error({fault = what .. " at byte " .. (at - 1)}, 0)
end

local function after_blanks(json, at)
    return json:find("[^ \t\r\n]", at) or #json + 1
end

local function read_string(json, at)
    local parts, begin = {}, at + 1
    while true do
        local stop = json:find('["\\%c]', begin)
        local char = stop and json:sub(stop, stop)
        if char ~= '"' and char ~= "\\" then
            fault("a string without its end", at)
        end
        parts[#parts + 1] = json:sub(begin, stop - 1)
        if char == '"' then
            return table.concat(parts), stop + 1
        end
        local escape = json:sub(stop + 1, stop + 1)
        if escape == "u" then
            local code = tonumber(json:match("^%x%x%x%x", stop + 2) or fault("an unknown escape", stop), 16)
            local low = code >= 0xD800 and code < 0xDC00 and json:match("^\\u([dD][c-fC-F]%x%x)", stop + 6)
            if low then
                code = 0x10000 + (code - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00
            end
            parts[#parts + 1] = utf8_of(code)
            begin = stop + (low and 12 or 6)
        else
            parts[#parts + 1] = ESCAPES[escape] or fault("an unknown escape", stop)
            begin = stop + 2
        end
    end
end

local read_value

-- Reads the items of an array or an object up to its bracket; `read` reads one.
local function read_items(json, at, bracket, read)
    at = after_blanks(json, at + 1)
    if json:sub(at, at) == bracket then
        return at + 1
    end
    while true do
        at = after_blanks(json, read(at))
        local char = json:sub(at, at)
        if char == bracket then
            return at + 1
        elseif char ~= "," then
            fault("no , or " .. bracket, at)
        end
        at = after_blanks(json, at + 1)
    end
end

-- Returns a value as {kind, value, first, last}, and where the text goes on. Lengths and places count bytes from 1.
function read_value(json, at, depth)
    local char = json:sub(at, at)
    if char == '"' then
        local value, after = read_string(json, at)
        return {kind = "string", value = value, first = at, last = after - 1}, after
    elseif char == "{" or char == "[" then
        if depth >= MOST_NESTING then
            fault("it nests deeper than " .. MOST_NESTING .. " levels", at)
        end
        local found = {kind = char == "{" and "object" or "array", value = {}, first = at}
        local after = read_items(json, at, char == "{" and "}" or "]", function(place)
            local key
            if char == "{" then
                if json:sub(place, place) ~= '"' then
                    fault("no name of an attribute", place)
                end
                key, place = read_string(json, place)
                place = after_blanks(json, place)
                if json:sub(place, place) ~= ":" then
                    fault("no : after a name", place)
                end
                place = after_blanks(json, place + 1)
            end
            local value, behind = read_value(json, place, depth + 1)
            found.value[key or #found.value + 1] = value
            return behind
        end)
        found.last = after - 1
        return found, after
    end
    local word = json:match("^[%w+.-]+", at) or fault("no value", at)
    local known = word == "true" or word == "false" or word == "null"
    local kind = known and (word == "null" and "null" or "boolean") or "number"
    if kind == "number" and not (word:match("^-?%d") and tonumber(word)) then
        fault("no value", at)
    end
    return {kind = kind, value = known and word or tonumber(word), word = word, first = at, last = at + #word - 1}, at + #word
end

-- Returns the attributes of a JSON object, or nil and what is wrong.
local function read_object(json)
    local done, found = pcall(function()
        local at = after_blanks(json, 1)
        if json:sub(at, at) ~= "{" then
            fault("it is no JSON object", at)
        end
        local object, after = read_value(json, at, 0)
        after = after_blanks(json, after)
        if after <= #json then
            fault("something follows the object", after)
        end
        return object
    end)
    if done then
        return found.value
    end
    return nil, type(found) == "table" and found.fault or tostring(found)
end

local function as_text(value)
    if value.kind == "array" then
        local parts = {}
        for index, each in ipairs(value.value) do
            parts[index] = as_text(each)
        end
        return table.concat(parts, ", ")
    end
    return value.kind == "object" and "{…}" or value.word or tostring(value.value)
end

local function brief(words)
    return #words > LONGEST_SHOWN and words:sub(1, LONGEST_SHOWN) .. "…" or words
end

-- Requests and answers: by connection and id, the frames that have them. ------------------------------------------------

local tcp_stream = Field.new("tcp.stream")
local asked, answered = {}, {}

function bus.init()
    asked, answered = {}, {}
end

local function add_answers(tree, pinfo, id, in_reply_to)
    local stream = tcp_stream()
    if not stream then
        return
    end
    local function key_of(value)
        return stream.value .. " " .. as_text(value)
    end
    if id then
        local key = key_of(id)
        if not pinfo.visited and not asked[key] then
            asked[key] = {frame = pinfo.number, time = pinfo.abs_ts}
        end
        if answered[key] and asked[key].frame == pinfo.number then
            tree:add(f.answered, answered[key]):set_generated()
        end
    end
    local question = in_reply_to and asked[key_of(in_reply_to)]
    if question then
        answered[key_of(in_reply_to)] = pinfo.number
        tree:add(f.asked, question.frame):set_generated()
        local seconds = math.max(0, pinfo.abs_ts - question.time)
        local time = NSTime.new(math.floor(seconds), math.floor(seconds % 1 * 1e9))
        tree:add(f.time, time):set_generated()
    end
end

-- Objects -------------------------------------------------------------------------------------------------------------

local media_types = DissectorTable.get("media_type")

local function add_payload(tree, range, pinfo, content_type)
    tree:add(f.payload, range)
    local bare = content_type and content_type:lower():match("^%s*([^;%s]+)")
    if bare then
        local columns = tostring(pinfo.cols.info)
        media_types:try(bare, range:tvb(), pinfo, tree)
        pinfo.cols.info = columns
    end
end

-- What an object is, in a few words.
local function summary(attributes, size)
    local words = {}
    local function add(value, before)
        if value then
            words[#words + 1] = (before or "") .. as_text(value)
        end
    end
    add(attributes.event)
    add(attributes.sender or attributes.name or attributes.service)
    add(attributes.reason)
    add(attributes.type)
    add(attributes.to, "to ")
    if size > 0 then
        words[#words + 1] = size .. " bytes"
    end
    return #words > 0 and brief(table.concat(words, "  ")) or "object"
end

local function size_of(attributes)
    local size = attributes.size
    if not size then
        return 0
    end
    if size.kind ~= "number" or size.value < 0 or size.value % 1 ~= 0 or size.word:find("[.eE]") then
        return nil, "size is " .. brief(as_text(size)) .. ", not a non-negative integer"
    end
    return size.value
end

local SHOWN = {"event", "type", "id", "to", "route", "routing-id", "reason", "message"}

local function add_metadata(tree, range, attributes)
    local branch = tree:add(f.metadata, range)
    local function add(field, value)
        if value then
            branch:add(field, range(value.first - 1, value.last - value.first + 1), as_text(value))
        end
    end
    for _, key in ipairs(SHOWN) do
        add(f[key], attributes[key])
    end
    add(f.service, attributes.sender or attributes.name or attributes.service)
    add(f.in_reply_to, attributes["in-reply-to"])
    if attributes.size and attributes.size.kind == "number" then
        local size = attributes.size
        branch:add(f.size, range(size.first - 1, size.last - size.first + 1), UInt64.new(math.max(0, size.value)))
    end
    return branch
end

-- Reads the metadata at `offset`, of `length` bytes. Returns it, or nil and what is wrong.
local function read_metadata(tvb, offset, length)
    local raw = length > 0 and tvb:raw(offset, length) or ""
    local attributes, what = read_object(raw)
    if not attributes then
        return nil, "metadata: " .. what
    end
    local size, wrong = size_of(attributes)
    return size and {attributes = attributes, size = size}, wrong
end

local function note(notes, words)
    notes[#notes + 1] = words
end

local function add_malformed(tree, proto, range, what, notes)
    local branch = tree:add(proto, range, proto.description .. ": malformed")
    branch:add_proto_expert_info(malformed, what)
    note(notes, "malformed: " .. what)
end

-- Adds one object. `there`: how many bytes of its payload were captured.
local function add_object(tree, proto, pinfo, tvb, offset, length, found, there, notes)
    local whole = tvb(offset, math.min(length + 1 + there, tvb:captured_len() - offset))
    local words = summary(found.attributes, found.size)
    local branch = tree:add(proto, whole, proto.description .. ": " .. words)
    note(notes, words)
    add_metadata(branch, tvb(offset, length), found.attributes)
    add_answers(branch, pinfo, found.attributes.id, found.attributes["in-reply-to"])
    if there > 0 then
        local content_type = found.attributes.type and as_text(found.attributes.type)
        add_payload(branch, tvb(offset + length + 1, there), pinfo, content_type)
    end
    if there < found.size then
        branch:add_proto_expert_info(partial, (found.size - there) .. " bytes of the payload were not captured")
    end
    if found.size > 0 and not found.attributes.type then
        branch:add_proto_expert_info(unusual, "a payload without a type counts as application/octet-stream")
    end
end

local function find_nul(tvb, offset)
    local raw = tvb:raw(offset, math.min(tvb:captured_len() - offset, MOST_METADATA + 1))
    local at = raw:find("\0", 1, true)
    return at and at - 1, #raw
end

-- Objects one after the other: in a stream, or (`is_alone`) one in a message, whose NUL may be missing.
local function dissect_objects(proto, tvb, pinfo, tree, is_alone)
    local offset, total, notes = 0, tvb:captured_len(), {}
    pinfo.cols.protocol = proto.description
    while offset < total do
        local length, looked = find_nul(tvb, offset)
        if not length and is_alone then
            length = looked
        elseif not length and looked <= MOST_METADATA then
            pinfo.desegment_offset, pinfo.desegment_len = offset, DESEGMENT_ONE_MORE_SEGMENT
            break
        end
        local found, what
        if not length then
            what = "metadata has over " .. MOST_METADATA .. " bytes"
        else
            found, what = read_metadata(tvb, offset, length)
        end
        if not found then
            -- Where the next object begins, nobody can know.
            add_malformed(tree, proto, tvb(offset), what, notes)
            offset = total
            break
        end
        local there = math.max(0, math.min(found.size, total - offset - length - 1))
        if there < found.size and not is_alone then
            pinfo.desegment_offset, pinfo.desegment_len = offset, found.size - there
            break
        end
        add_object(tree, proto, pinfo, tvb, offset, length, found, there, notes)
        offset = math.min(total, offset + length + 1 + found.size)
    end
    if #notes > 0 then
        pinfo.cols.info = table.concat(notes, " | ")
    end
    return total
end

local objects = Proto("bus_objects", "Object System")
local business = Proto("bus_business", "Business Object")
local tapped = Proto("bus_object", "Object")

function objects.dissector(tvb, pinfo, tree)
    return dissect_objects(objects, tvb, pinfo, tree, false)
end

function business.dissector(tvb, pinfo, tree)
    return dissect_objects(business, tvb, pinfo, tree, false)
end

function tapped.dissector(tvb, pinfo, tree)
    return dissect_objects(tapped, tvb, pinfo, tree, true)
end

-- Inbus -----------------------------------------------------------------------------------------------------------------

local inbus = Proto("bus_inbus", "Inbus")
local OPCODES = {"subscribe", "unsubscribe", "publish"}

local function is_pair(value, first, second)
    return value and value.kind == "array" and #value.value == 2
        and value.value[1].kind == first and value.value[2].kind == second
end

-- What is wrong with a datagram; nil: nothing is.
local function fault_of_datagram(found)
    for _, key in ipairs({"version", "opcode"}) do
        if not found[key] or found[key].kind ~= "number" then
            return key .. " is no integer"
        end
    end
    if not is_pair(found.application, "string", "number") then
        return "application is no pair of an app-key and an app-type"
    elseif not is_pair(found.address, "string", "number") then
        return "address is no pair of a host and a port"
    elseif not found.payload or found.payload.kind ~= "string" then
        return "payload is no string"
    elseif not OPCODES[found.opcode.value] then
        return "opcode " .. as_text(found.opcode) .. " is reserved"
    end
end

function inbus.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = inbus.description
    local notes, range = {}, tvb(0)
    local found, what = read_object(tvb:raw())
    what = what or fault_of_datagram(found)
    if what then
        add_malformed(tree, inbus, range, what, notes)
        pinfo.cols.info = notes[1]
        return tvb:captured_len()
    end
    local function at(value)
        return range(value.first - 1, value.last - value.first + 1)
    end
    local opcode, app_key, app_type = found.opcode.value, found.application.value[1], found.application.value[2]
    local host, port = found.address.value[1], found.address.value[2]
    local words = OPCODES[opcode] .. "  " .. app_key.value
    local branch = tree:add(inbus, range)
    branch:add(f.version, at(found.version), found.version.value)
    branch:add(f.opcode, at(found.opcode), opcode)
    branch:add(f.service, at(app_key), app_key.value)
    if opcode == 3 then
        branch:add(f.app_type, at(app_type), Int64.new(app_type.value))
        -- Version 2 carries bytes as base64.
        local payload = at(found.payload)
        if found.version.value == 2 and #found.payload.value > 0 then
            local bytes = ByteArray.new(found.payload.value, true):base64_decode()
            payload = bytes:tvb("Payload of Inbus")()
        end
        branch:add(f.payload, payload)
        words = words .. "  " .. payload:len() .. " bytes"
    else
        branch:add(f.host, at(host), host.value)
        branch:add(f.port, at(port), port.value)
        words = words .. "  for " .. host.value .. ":" .. as_text(port)
    end
    branch:append_text(": " .. brief(words))
    pinfo.cols.info = brief(words)
    return tvb:captured_len()
end

-- SPP -------------------------------------------------------------------------------------------------------------------

local spp = Proto("bus_spp", "Service providing protocol")
local FROM_CLIENT = {[0] = "test", "subscribe", "unsubscribe", [32] = "authenticate"}
local FROM_SERVER = {[0] = "test", "offer", "removed", [16] = "info", [33] = "result of the authentication"}

-- Adds a STRING at `offset`. Returns it and where the next field begins; nil: there is none.
local function add_string(tree, field, tvb, offset)
    if offset + 4 > tvb:len() or offset + 4 + tvb(offset, 4):uint() > tvb:len() then
        tree:add_proto_expert_info(malformed, "a string is longer than its packet")
        return nil
    end
    local length = tvb(offset, 4):uint()
    local range = length > 0 and tvb(offset + 4, length)
    if range and field == f.payload then
        tree:add(field, range)
    else
        tree:add(field, range or tvb(offset, 4), range and range:string(ENC_UTF_8) or "")
    end
    return range and range:string(ENC_UTF_8) or "", offset + 4 + length
end

local function dissect_packet(tvb, pinfo, tree)
    if tvb:captured_len() < tvb:reported_len() or tvb:len() < 8 then
        tree:add(spp, tvb()):add_proto_expert_info(partial, "the packet was not captured as a whole")
        return tvb:len()
    end
    local is_from_server = pinfo.match_uint == pinfo.src_port
    local msgtype = tvb(0, 4):uint()
    local kind = (is_from_server and FROM_SERVER or FROM_CLIENT)[msgtype]
    local words = kind or (msgtype < 32 and "reserved " or "other ") .. msgtype
    local branch = tree:add(spp, tvb())
    branch:add(f.msgtype, tvb(0, 4)):append_text(" (" .. words .. ")")
    branch:add(f.length, tvb(4, 4))
    local data = tvb:len() > 8 and tvb(8):tvb()
    if msgtype == 1 or msgtype == 2 or (msgtype == 16 and is_from_server) then
        local service, after
        if data then
            service, after = add_string(branch, f.service, data, 0)
        else
            branch:add_proto_expert_info(malformed, "the name of the service is missing")
        end
        words = words .. "  " .. (service or "malformed")
        if service and msgtype == 16 then
            local _, behind = add_string(branch, f.payload, data, after)
            words = words .. (behind and "  " .. (behind - after - 4) .. " bytes" or "  malformed")
        end
    elseif msgtype == 32 and not is_from_server and data then
        -- The secret stays as it is: in the bytes, not among the fields.
        words = words .. "  " .. (add_string(branch, f.user, data, 0) or "malformed")
    elseif msgtype == 33 and is_from_server and data and data:len() >= 4 then
        branch:add(f.code, data(0, 4))
    elseif not kind and msgtype < 32 then
        branch:add_proto_expert_info(unusual, "message type " .. msgtype .. " is reserved")
    end
    branch:append_text(": " .. brief(words))
    if pinfo.private["bus_spp"] ~= tostring(pinfo.number) then
        pinfo.private["bus_spp"] = tostring(pinfo.number)
        pinfo.cols.info = brief(words)
    else
        pinfo.cols.info:append(" | " .. brief(words))
    end
    return tvb:len()
end

function spp.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "SPP"
    dissect_tcp_pdus(tvb, tree, 8, function(head, _, offset)
        local is_captured = offset + 8 <= head:captured_len()
        return is_captured and 8 + head(offset + 4, 4):uint() or head:reported_length_remaining(offset)
    end, dissect_packet)
    return tvb:len()
end

-- Ports -------------------------------------------------------------------------------------------------------------------

local function on_ports(proto, tables, ports)
    proto.prefs.ports = Pref.range("Ports", ports, "The ports of the server with this wire format.", 65535)
    local registered
    local function register()
        for _, name in ipairs(tables) do
            local known = DissectorTable.get(name)
            if registered then
                known:remove(registered, proto)
            end
            known:add(proto.prefs.ports, proto)
        end
        registered = proto.prefs.ports
    end
    proto.prefs_changed = register
    register()
end

on_ports(objects, {"tcp.port"}, "7890")
on_ports(business, {"tcp.port"}, "7891")
on_ports(spp, {"tcp.port"}, "3002")
on_ports(inbus, {"udp.port"}, "7222")
-- With a file of TLS secrets, what is inside TLS is read as well: on any port, by "Decode as".
DissectorTable.get("tls.port"):add_for_decode_as(objects)
DissectorTable.get("tls.port"):add_for_decode_as(business)
DissectorTable.get("tls.port"):add_for_decode_as(spp)
DissectorTable.get("ws.protocol"):add("objects", tapped)
