// The ioredis clients of a backend, and the supported backends.
'use strict';

const Redis = require('ioredis');

const BACKENDS = ['redis', 'redis-sentinel', 'redis-cluster', 'redlock-5'];

function address(url) {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

function make(backend, urls) {
  switch (backend) {
    case 'redis-sentinel': {
      const name = urls.at(-1).replace(/^master=/, '');
      return [new Redis({ sentinels: urls.slice(0, -1).map(address), name })];
    }
    case 'redis-cluster':
      return [new Redis.Cluster(urls.map(address))];
    default:
      return urls.map((url) => new Redis(url));
  }
}

async function connect(backend, urls) {
  const clients = make(backend, urls);
  await Promise.all(clients.map((client) => client.ping()));
  return clients;
}

module.exports = { BACKENDS, connect };
