module lockwright/interop/redsync

// What this redsync asks for. Go 1.19, which Debian 12 has, builds it all the same. The next version,
// 4.13.0, asks for 1.22, and with that here a Go 1.21 would refuse.
go 1.20

require (
	github.com/go-redsync/redsync/v4 v4.12.1
	github.com/gomodule/redigo v1.9.2
)

require (
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
)
