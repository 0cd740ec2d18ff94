// redlock, on ioredis.
'use strict';

const Redlock = require('redlock');

const { BACKENDS, connect } = require('./lib/clients');
const { Lost, serve, versions } = require('./protocol');

const handshake = {
  name: 'node-redlock',
  library: versions('redlock', 'ioredis'),
  backends: BACKENDS,
  notes: [
    'tries to acquire without limit (retryCount -1)',
    'no watchdog: held locks are extended one by one, at a third of the TTL',
    'not 5.0.0-beta.2, which on five servers keeps its minority while it tries again, so that contenders block each other until the TTL is over',
  ],
};

const library = {
  async open(backend, urls) {
    this.redlock = new Redlock(await connect(backend, urls));
  },

  lock(name, ttl) {
    return this.redlock.acquireWithOptions(name, ttl, { retryCount: -1 });
  },

  renew(lock, ttl) {
    return lock.extend(ttl);
  },

  async unlock(lock) {
    try {
      await lock.unlock();
    } catch (error) {
      if (error instanceof Redlock.LockError) throw new Lost();
      throw error;
    }
  },
};

serve(handshake, library);
