package pmiserver_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/test/pmitest"
)

// An exchangeJob is a set of servers and the clients of all its ranks, connected by pipe.
type exchangeJob struct {
	clients []*pmitest.Client
	conns   []io.Closer
	served  sync.WaitGroup
	mu      sync.Mutex
	ends    []error // results of Serve that are not nil
}

// startJob starts servers for nodes with per ranks each, in block order.
func startJob(nodes, per int, pipe func() (a, b io.ReadWriteCloser)) *exchangeJob {
	j := &exchangeJob{}
	coordinator := newCoordinator(nodes, per)
	for n := range nodes {
		info := pmiserver.Info{Name: "k0", Size: nodes * per}
		for i := range per {
			info.Ranks = append(info.Ranks, n*per+i)
		}
		var otherNodes fence.Exchanger
		if nodes > 1 {
			otherNodes = coordinator.Node(n)
		}
		s := pmiserver.New(info, otherNodes)
		for _, rank := range info.Ranks {
			mine, theirs := pipe()
			j.clients = append(j.clients, pmitest.NewClient(mine))
			j.conns = append(j.conns, mine)
			j.served.Go(func() {
				defer theirs.Close()
				if err := s.Serve(context.Background(), rank, theirs); err != nil {
					j.mu.Lock()
					j.ends = append(j.ends, err)
					j.mu.Unlock()
				}
			})
		}
	}
	return j
}

// each runs f for every rank at once, and returns the first error.
func (j *exchangeJob) each(f func(rank int, c *pmitest.Client) error) error {
	errs := make(chan error, len(j.clients))
	for rank, c := range j.clients {
		go func() { errs <- f(rank, c) }()
	}
	var first error
	for range j.clients {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// end closes all connections and waits for the servers.
func (j *exchangeJob) end() {
	for _, c := range j.conns {
		c.Close()
	}
	j.served.Wait()
}

func netPipe() (a, b io.ReadWriteCloser) { return net.Pipe() }

// socketPair returns a connection like that of a real rank.
func socketPair() (a, b io.ReadWriteCloser) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

// Four nodes of eight ranks put random keys in several rounds. All ranks must see the same values.
func TestExchange(t *testing.T) {
	for name, pipe := range map[string]func() (a, b io.ReadWriteCloser){"pipes": netPipe, "sockets": socketPair} {
		t.Run(name, func(t *testing.T) { exchange(t, startJob(4, 8, pipe)) })
	}
}

func exchange(t *testing.T, j *exchangeJob) {
	const rounds = 3
	var mu sync.Mutex
	want := make(map[string]string)   // keys that one rank puts
	shared := make(map[string]string) // the values that the first reading rank saw
	err := j.each(func(rank int, c *pmitest.Client) error {
		rng := rand.New(rand.NewPCG(uint64(rank), 7))
		if err := c.Init(); err != nil {
			return err
		}
		for round := range rounds {
			for range rng.IntN(4) {
				key := fmt.Sprintf("key-%d-%d", rank, rng.IntN(10))
				value := fmt.Sprintf("%x round %d", rng.Uint64(), round)
				if err := c.Put(key, value); err != nil {
					return err
				}
				mu.Lock()
				want[key] = value
				mu.Unlock()
			}
			if err := c.Put("shared", fmt.Sprint(rank, " ", round)); err != nil {
				return err
			}
			if err := c.Barrier(); err != nil {
				return err
			}
			if err := checkRound(c, round, &mu, want, shared); err != nil {
				return fmt.Errorf("rank %d: round %d: %w", rank, round, err)
			}
			// No rank may put for the next round while others still read.
			if err := c.Barrier(); err != nil {
				return err
			}
		}
		return c.Finalize()
	})
	if err != nil {
		t.Error(err)
	}
	j.end()
	if len(j.ends) > 0 {
		t.Error(j.ends)
	}
}

func checkRound(c *pmitest.Client, round int, mu *sync.Mutex, want, shared map[string]string) error {
	for rank := range 32 {
		for i := range 10 {
			key := fmt.Sprintf("key-%d-%d", rank, i)
			got, found, err := c.Get(key)
			mu.Lock()
			value, put := want[key]
			mu.Unlock()
			if err != nil || found != put || got != value {
				return fmt.Errorf("%s: got %q %v, want %q %v (%v)", key, got, found, value, put, err)
			}
		}
	}
	got, _, err := c.Get("shared")
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	first, seen := shared[fmt.Sprint(round)]
	if !seen {
		shared[fmt.Sprint(round)] = got
	} else if got != first {
		return fmt.Errorf("ranks do not agree: %q and %q", got, first)
	}
	return nil
}

// A rank that sends requests in the barrier and does not read the replies must not delay the others.
func TestReaderThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(1, 2, netPipe)
		if err := j.each(func(_ int, c *pmitest.Client) error { return c.Init() }); err != nil {
			t.Fatal(err)
		}
		deaf := j.conns[0].(net.Conn)
		deaf.Write([]byte("cmd=barrier_in\ncmd=get_maxes\n"))
		synctest.Wait()
		if err := j.clients[1].Barrier(); err != nil {
			t.Fatal(err)
		}
		want := "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\ncmd=barrier_out\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(deaf, got); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		j.end()
	})
}

// A rank may connect again after its connection has ended, and not before.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{5}}, nil)
		var steps []string
		s.StateChanged = func(rank int, from, to pmiserver.State) {
			steps = append(steps, fmt.Sprint(rank, " ", from, " ", to))
		}
		if err := s.Serve(t.Context(), 0, nil); err == nil {
			t.Error("a rank of another node is served")
		}
		for range 2 {
			mine, theirs := net.Pipe()
			end := make(chan error)
			go func() { end <- s.Serve(context.Background(), 5, theirs) }()
			c := pmitest.NewClient(mine)
			if err := c.Init(); err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(t.Context(), 5, nil); err == nil {
				t.Error("a rank is served twice at once")
			}
			if err := c.Barrier(); err != nil {
				t.Fatal(err)
			}
			if err := c.Finalize(); err != nil {
				t.Fatal(err)
			}
			if got := s.State(5); got != pmiserver.Finalized {
				t.Errorf("State = %v, want finalized", got)
			}
			mine.Close()
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		once := "5 connected inited 5 inited finalized 5 finalized closed"
		if got, want := fmt.Sprint(steps), "[5 absent connected "+once+" 5 closed connected "+once+"]"; got != want {
			t.Errorf("steps\n got %s\nwant %s", got, want)
		}
	})
}

// The end of the context ends Serve, even while it waits for other nodes.
func TestContextEndsServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coordinator := newCoordinator(2, 1)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0}}, coordinator.Node(0))
		s.Broken = func(err error) { t.Errorf("Broken(%v)", err) }
		ctx, cancel := context.WithCancel(t.Context())
		mine, theirs := net.Pipe()
		end := make(chan error)
		go func() { end <- s.Serve(ctx, 0, theirs) }()
		go io.Copy(io.Discard, mine)
		io.WriteString(mine, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n")
		synctest.Wait()
		cancel()
		if err := <-end; err != context.Canceled {
			t.Errorf("Serve = %v, want %v", err, context.Canceled)
		}
		mine.Close()
	})
}

// The output of Trace can be pasted into a transcript.
func TestTrace(t *testing.T) {
	for sent, want := range map[string][]string{
		"cmd=init pmi_version=1\ncmd=put key=a value=\x01\\\ncmd=barrier_in\ncmd=abort\ncmd=get_appnum\n": {
			"0< cmd=init pmi_version=1",
			`0< cmd=put key=a value=\x01\\`,
			"0< cmd=barrier_in",
			"0> cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
			"0> cmd=put_result rc=0",
			"0> cmd=barrier_out",
			"0< cmd=abort",
		},
		"cmd=init pmi_version=2\n    13cmd=finalize;22    cmd=job-getid;thrid=1;": {
			"0< cmd=init pmi_version=2",
			"0<; cmd=finalize;",
			"0<; cmd=job-getid;thrid=1;",
			"0> cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0",
			"0>; cmd=finalize-response;rc=1;errmsg=not_initialized;",
			"0>; cmd=job-getid-response;thrid=1;rc=1;errmsg=not_initialized;",
		},
	} {
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
		var got []string
		s.Trace = func(rank int, line string) { got = append(got, fmt.Sprint(rank, line)) }
		s.Serve(t.Context(), 0, &script{in: sent, out: io.Discard})
		if !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", sent, got, want)
		}
	}
}

// A script is the connection of a rank that sends all its input at once.
type script struct {
	in  string
	out io.Writer
}

func (s *script) Read(b []byte) (int, error) {
	if s.in == "" {
		return 0, io.EOF
	}
	n := copy(b, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error) { return s.out.Write(b) }
