module lockwright/interop/redsync

// redsync 4.12.1 requires Go 1.20, but Debian 12's Go 1.19 builds it too. Version 4.13.0 requires
// Go 1.22. With that in this file, Go 1.21 would refuse to build.
go 1.20

require (
	github.com/go-redsync/redsync/v4 v4.12.1
	github.com/gomodule/redigo v1.9.2
)

require (
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
)
