package launch

import (
	"net"
	"time"

	"remshell/pmiserver"
)

// RefuseSingleton tells an MPI process that was started without mpiexec that no mpiexec will serve it. The
// process listens on a port of this machine and would otherwise wait forever (pmi-wire.md 1.4).
// RefuseSingleton does nothing if the process no longer listens.
func RefuseSingleton(port string) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 2*time.Second)
	if err == nil {
		pmiserver.RefuseSingleton(conn)
	}
}
