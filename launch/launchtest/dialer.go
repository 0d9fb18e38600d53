//go:build linux

package launchtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"

	"remshell/job"
	"remshell/pin"
	"remshell/transport"
	"remshell/wire"
)

// A Dialer starts helpers as child processes of the test.
type Dialer struct {
	mu    sync.Mutex
	pids  map[string]int
	Fakes map[string]func(*wire.Conn) // by node, helpers that the test plays itself

	Environ []string // variables of the helpers, in addition to those of the test
}

// A child is the stdin and stdout of a helper process as one stream.
type child struct {
	io.Reader
	io.WriteCloser
	wait func() error // waits for the process; may be called from any goroutine, and repeatedly
}

func (c child) Close() error {
	c.WriteCloser.Close()
	return c.wait()
}

// Dial starts the helpers of hosts. It implements node.HelperDialer.
func (d *Dialer) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, d.DialHost)
}

// DialHost starts the helper of one host.
func (d *Dialer) DialHost(_ context.Context, node transport.Host) (io.ReadWriteCloser, error) {
	if node.Name == "nowhere" {
		return nil, fmt.Errorf("no such host")
	}
	if fake := d.Fakes[node.Name]; fake != nil {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			fake(wire.NewConn(theirs, wire.Helper))
		}()
		return ours, nil
	}
	cmd := exec.Command("/proc/self/exe")
	// The race detector would sleep for a second at the end of every helper.
	cmd.Env = slices.Concat(os.Environ(), []string{"TEST_HELPER_NODE=" + node.Name, "GORACE=atexit_sleep_ms=0"}, d.Environ)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pids == nil {
		d.pids = make(map[string]int)
	}
	d.pids[node.Name] = cmd.Process.Pid
	return child{r, in, sync.OnceValue(cmd.Wait)}, nil
}

// PID returns the process ID of a node's helper. It is 0 if the node has none.
func (d *Dialer) PID(node string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pids[node]
}

// FakeHelper returns a function that acts as the helper of a node with two CPUs. It passes each message
// to play first. If play returns false, it replies as a real helper does.
func FakeHelper(identity string, play func(c *wire.Conn, m wire.Message) bool) func(*wire.Conn) {
	return func(c *wire.Conn) {
		c.SendHello(&wire.Hello{Version: wire.Version})
		cores := []pin.Core{{CPUs: []int{0}}, {CPUs: []int{1}}}
		c.Send(&wire.NodeInfo{Probe: job.Probe{Identity: identity, Hostname: identity, Topology: pin.Topology{Cores: cores}}})
		var prepared []*wire.Prepare
		for {
			m, err := c.Recv()
			if err != nil {
				return
			}
			if play(c, m) {
				continue
			}
			switch m := m.(type) {
			case *wire.LockDecision:
				c.Send(&wire.DecisionLocked{})
			case *wire.Survey:
				c.Send(&wire.Surveyed{})
			case *wire.Prepare:
				prepared = append(prepared, m)
				c.Send(&wire.Prepared{Group: m.Group.Name})
			case *wire.Start:
				for _, p := range prepared {
					for _, r := range p.Ranks {
						c.Send(&wire.Started{Rank: p.Group.First + r.Rank, PID: 1})
					}
				}
				prepared = nil
			case *wire.EndJob:
				c.Send(&wire.Drained{})
			case *wire.Bye:
				return
			}
		}
	}
}
