package launch

import (
	"net"
	"time"

	"remshell/pmiserver"
)

// RefuseSingleton answers a process that was started without mpiexec and has now called for
// one, by listening on a port of this machine, when there will be none for it (pmi-wire.md
// 1.4). It would wait for ever if nobody came. Who has been answered already does not listen.
func RefuseSingleton(port string) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 2*time.Second)
	if err == nil {
		pmiserver.RefuseSingleton(conn)
	}
}
