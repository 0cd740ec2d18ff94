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
	}, "go.etcd.io/etcd/client/v3", &library{sessions: map[int]*concurrency.Session{}})
}

type library struct {
	client   *clientv3.Client
	lock     sync.RWMutex
	sessions map[int]*concurrency.Session
}

func (l *library) Open(_ string, servers protocol.Servers) error {
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

func (l *library) Prepare(task int) error {
	if l.session(task) != nil {
		return nil
	}
	session, err := concurrency.NewSession(l.client, concurrency.WithTTL(int(protocol.TTL/time.Second)))
	l.lock.Lock()
	defer l.lock.Unlock()
	l.sessions[task] = session
	return err
}

func (l *library) session(task int) *concurrency.Session {
	l.lock.RLock()
	defer l.lock.RUnlock()
	return l.sessions[task]
}

func (l *library) Lock(task int, name string) (protocol.Hold, error) {
	session := l.session(task)
	mutex := concurrency.NewMutex(session, name)
	if err := mutex.Lock(session.Ctx()); err != nil {
		return nil, err
	}
	return hold{mutex, session}, nil
}

func (l *library) Keep(name string) (protocol.Hold, error) {
	return l.Lock(0, name)
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
