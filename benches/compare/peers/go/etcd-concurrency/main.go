// The mutex of etcd's own client, as a benchmark subject.
package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"lockwright/peers/protocol"
)

const limit = 10 * time.Second

func main() {
	protocol.Serve(protocol.Handshake{
		Name:     "etcd-concurrency",
		Backends: []string{"etcd"},
		Notes: []string{
			"a session, which is a lease that is kept alive, is made once and not for each lock",
			"each task that contends has a session of its own: two of one session would have the lock both",
		},
	}, "go.etcd.io/etcd/client/v3", &library{sessions: map[owner]*concurrency.Session{}})
}

type library struct {
	client   *clientv3.Client
	lock     sync.RWMutex
	sessions map[owner]*concurrency.Session
}

type owner struct {
	task int
	ttl  time.Duration
}

func (l *library) Open(backend string, servers protocol.Servers) error {
	if backend != "etcd" {
		return protocol.Cannot("lock on " + backend)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: servers.Addresses, DialTimeout: limit})
	if err != nil {
		return err
	}
	l.client = client
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err = client.Get(ctx, "nobody has this key")
	return err
}

func (l *library) Prepare(task int, ttl time.Duration) error {
	owner := owner{task, ttl}
	if l.session(owner) != nil {
		return nil
	}
	seconds := int((ttl + time.Second - 1) / time.Second)
	session, err := concurrency.NewSession(l.client, concurrency.WithTTL(seconds))
	if err != nil {
		return err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.sessions[owner] = session
	return nil
}

func (l *library) session(owner owner) *concurrency.Session {
	l.lock.RLock()
	defer l.lock.RUnlock()
	return l.sessions[owner]
}

func (l *library) Lock(task int, name string, ttl time.Duration) (protocol.Hold, error) {
	session := l.session(owner{task, ttl})
	mutex := concurrency.NewMutex(session, name)
	if err := mutex.Lock(session.Ctx()); err != nil {
		return nil, err
	}
	return hold{mutex, session}, nil
}

func (l *library) Keep(name string, ttl time.Duration) (protocol.Hold, error) {
	return l.Lock(0, name, ttl)
}

type hold struct {
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

func (h hold) Unlock() error {
	if h.session.Ctx().Err() != nil {
		return protocol.ErrLost
	}
	return h.mutex.Unlock(context.Background())
}
