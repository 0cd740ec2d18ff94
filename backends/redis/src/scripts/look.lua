-- Reads or creates a node's incarnation. If a restart may have lost holds, the incarnation is
-- 'new', and the node doesn't vote.
--
-- KEYS  incarnation
-- ARGV  run id of the server, a random number, largest TTL in ms, '1' if every write is persisted
--       now, '1' if the server is a promoted replica
--
-- Returns five words: 'votes' or 'new', run id, random number of the data, largest TTL, '1' if
-- every write was persisted when the incarnation was written.

local run, number, longest, kept, was_replica = unpack(ARGV)
local incarnation = redis.call('GET', KEYS[1])
local state, old_run, old_number, old_longest, old_kept
if incarnation then
  state, old_run, old_number, old_longest, old_kept =
    incarnation:match('^(%a+) (%S+) (%S+) (%d+) ([01])$')
end
if old_run == run and (old_kept == kept or old_kept == '0') then
  return incarnation
end
if old_run == run then
  -- The server no longer persists every write. The opposite change isn't recorded (above), because
  -- earlier writes may not be on disk.
  number, longest = old_number, old_longest
elseif state == 'votes' and old_kept == '1' and kept == '1' and was_replica ~= '1' then
  number, longest = old_number, old_longest
else
  -- Holds that the node has forgotten may have the old largest TTL.
  state, longest = 'new', old_longest or longest
end
incarnation = table.concat({ state, run, number, longest, kept }, ' ')
redis.call('SET', KEYS[1], incarnation)
return incarnation
