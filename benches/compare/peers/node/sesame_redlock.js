// @sesamecare-oss/redlock, a fork of redlock 5, on ioredis.
'use strict';

const { ExecutionError, Redlock } = require('@sesamecare-oss/redlock');

const { BACKENDS, connect } = require('./lib/clients');
const { Lost, serve, versions } = require('./protocol');

const handshake = {
  name: 'sesame-redlock',
  library: versions('@sesamecare-oss/redlock', 'ioredis'),
  backends: BACKENDS,
  notes: [
    'tries to acquire without limit (retryCount -1)',
    'acquire and release as they are called, without the watchdog of `using`: held locks are extended one by one, at a third of the TTL',
  ],
};

const library = {
  async open(backend, urls) {
    this.redlock = new Redlock(await connect(backend, urls));
  },

  lock(name, ttl) {
    return this.redlock.acquire([name], ttl, { retryCount: -1 });
  },

  renew(lock, ttl) {
    // `lock.extend` would retry without limit, as `acquire` does.
    return this.redlock.extend(lock, ttl);
  },

  async unlock(lock) {
    try {
      await lock.release();
    } catch (error) {
      if (error instanceof ExecutionError) throw new Lost();
      throw error;
    }
  },
};

serve(handshake, library);
