-- The certificate of a node: what tells this incarnation of its data from the last and the next.
--
-- KEYS  certificate
-- ARGV  run id of the server, a random number, largest TTL in ms, '1' if every write is kept now,
--       '1' if the server was a replica since its data began
--
-- A certificate is five words: 'votes' or 'new', the run id, the random number that came with its
-- data, the largest TTL, and '1' if every write was kept when it was written. Answers it.
--
-- It goes when the data go. Across a restart it is carried over, with the data, only if nothing can
-- have been lost: otherwise there may be holds that the node has forgotten, and it is new.

local run, number, longest, kept, was_replica = unpack(ARGV)
local certificate = redis.call('GET', KEYS[1])
local state, its_run, its_number, its_longest, its_kept
if certificate then
  state, its_run, its_number, its_longest, its_kept =
    certificate:match('^(%a+) (%S+) (%S+) (%d+) ([01])$')
end
if its_run == run and (its_kept == kept or its_kept == '0') then
  return certificate
end
if its_run == run then
  -- From here on writes may get lost. The other way round it would be too early to rely on it: what
  -- was written before may not be on the disk yet.
  number, longest = its_number, its_longest
elseif state == 'votes' and its_kept == '1' and kept == '1' and was_replica ~= '1' then
  number, longest = its_number, its_longest
else
  -- The longest TTL that was in use here is what has to be waited for.
  state, longest = 'new', its_longest or longest
end
certificate = table.concat({ state, run, number, longest, kept }, ' ')
redis.call('SET', KEYS[1], certificate)
return certificate
