package launch

import (
	"fmt"
	"net"
	"time"

	"remshell/pmiserver"
)

// RefuseSingleton answers a process that was started without mpiexec and has now called for
// one, by listening on a port of this machine, because it wants to spawn others or to use
// names (pmi-wire.md 1.4). It would wait for ever if nobody came. The error says what to do
// instead.
func RefuseSingleton(port string) error {
	refusal := &StartError{"an MPI program that was started by itself wants to spawn others, or to use names", "start it with mpiexec -n 1", ExitInternal}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 2*time.Second)
	if err != nil {
		return fmt.Errorf("%w; it cannot be told: %w", refusal, err)
	}
	pmiserver.RefuseSingleton(conn)
	return refusal
}
