package pmiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver"
	"remshell/test/pmitest"
)

// connectNew connects a client to a listener. It returns the client's end and the result of Serve.
func connectNew(d *pmiserver.Listener) (net.Conn, chan error) {
	mine, theirs := net.Pipe()
	end := make(chan error, 1)
	go func() { end <- d.Serve(context.Background(), theirs) }()
	return mine, end
}

// Each rank has its own random ID, which is valid until its server is forgotten.
func TestPendingIDs(t *testing.T) {
	d := &pmiserver.Listener{}
	s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 1000, Ranks: []int{0}}, nil)
	ids := make(map[int]bool)
	high := 0
	for rank := range 1000 {
		id := d.ExpectRank(s, rank)
		if id < 1 || id > 1<<31-1 || ids[id] {
			t.Fatalf("ID %d", id)
		}
		ids[id] = true
		if id >= 1<<30 {
			high++
		}
	}
	if high < 400 || high > 600 {
		t.Errorf("%d of 1000 random numbers are in the upper half", high)
	}
	d.NewID = func() int { return 7 }
	d.ExpectRank(s, 0)
	d.ForgetServer(s)
	conn, end := connectNew(d)
	io.WriteString(conn, "cmd=initack pmiid=7\n")
	if reply, _ := io.ReadAll(conn); string(reply) != "cmd=initack rc=-1\n" {
		t.Errorf("a rank of a server that is forgotten: %q", reply)
	}
	if err := <-end; !errors.Is(err, pmiserver.ErrNoRank) {
		t.Errorf("Serve = %v", err)
	}
}

// A connection that sends nothing is closed at its time limit; one that sends its ID stays.
func TestSilentPendingConnIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &pmiserver.Listener{NewID: func() int { return 7 }}
		d.ExpectRank(pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil), 0)
		rank, served := connectNew(d)
		c := pmitest.NewClient(rank)
		if lines, err := c.Acknowledge(7); err != nil || lines != (pmitest.RankAndSize{Rank: 0, Size: 1}) {
			t.Fatal(lines, err)
		}
		began := time.Now()
		silent, end := connectNew(d)
		go silent.Write([]byte("cmd=init"))
		if err := <-end; !errors.Is(err, pmiserver.ErrNoRank) || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := c.Init(); err != nil {
			t.Error(err)
		}
		if err := c.Finalize(); err != nil {
			t.Error(err)
		}
		rank.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Ranks can connect while many connections send nothing.
func TestManyPendingConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &pmiserver.Listener{NewID: func() int { return 7 }}
		d.ExpectRank(pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil), 0)
		const crowd = 1000
		ends := make(chan error, crowd)
		for range crowd {
			_, theirs := net.Pipe()
			go func() { ends <- d.Serve(context.Background(), theirs) }()
		}
		synctest.Wait()
		if len(ends) != crowd-256 {
			t.Errorf("%d of %d had to go, want all but 256", len(ends), crowd)
		}
		rank, served := connectNew(d)
		c := pmitest.NewClient(rank)
		if _, err := c.Acknowledge(7); err != nil {
			t.Error(err)
		}
		rank.Close()
		<-served
		time.Sleep(time.Minute) // in synctest: the other connections must be closed too
		if len(ends) != crowd {
			t.Errorf("%d of %d have gone", len(ends), crowd)
		}
	})
}

// The oldest connection is closed first, in whatever order the connections are served.
func TestOldestPendingConnIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &pmiserver.Listener{NewID: func() int { return 7 }}
		d.ExpectRank(pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil), 0)
		const crowd = 1000
		ends := make(chan int, crowd+1)
		come := func() (client net.Conn, n *pmiserver.PendingConn) {
			client, theirs := net.Pipe()
			return client, d.AddPending(theirs)
		}
		silent := make([]*pmiserver.PendingConn, crowd)
		for i := range silent {
			_, silent[i] = come()
		}
		rank, last := come()
		go func() { last.Serve(t.Context()); ends <- crowd }() // before all earlier ones
		synctest.Wait()
		for i, n := range slices.Backward(silent) {
			go func() { n.Serve(t.Context()); ends <- i }()
		}
		synctest.Wait()
		if len(ends) != crowd+1-256 {
			t.Fatalf("%d have gone, want %d", len(ends), crowd+1-256)
		}
		for range crowd + 1 - 256 {
			if i := <-ends; i >= crowd+1-256 {
				t.Errorf("connection %d was closed, and the first %d are the oldest", i, crowd+1-256)
			}
		}
		if _, err := pmitest.NewClient(rank).Acknowledge(7); err != nil {
			t.Errorf("who came last: %v", err)
		}
		rank.Close()
		time.Sleep(time.Minute) // in synctest: the other connections must be closed too
	})
}

// The end of the context ends a greeting.
func TestContextEndsAGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, theirs := net.Pipe()
		end := make(chan error)
		go func() { end <- (&pmiserver.Listener{}).Serve(ctx, theirs) }()
		synctest.Wait()
		cancel()
		if err := <-end; err != context.Canceled {
			t.Errorf("Serve = %v, want %v", err, context.Canceled)
		}
	})
}

// 10,000 connections that send junk do no harm: the ranks of two nodes, which connect to the same
// listeners, exchange their keys.
func TestJunkFromPendingConns(t *testing.T) {
	const nodes, per, junk = 2, 4, 10000
	coordinator := newCoordinator(nodes, per)
	var listeners [nodes]*pmiserver.Listener
	var ids []int
	for n := range nodes {
		listeners[n] = &pmiserver.Listener{}
		info := pmiserver.Info{Name: "k0", Size: nodes * per}
		for i := range per {
			info.Ranks = append(info.Ranks, n*per+i)
		}
		s := pmiserver.New(info, coordinator.Node(n))
		s.Abort = func(rank, _ int, _ string) { t.Errorf("rank %d ends the job", rank) }
		s.Broken = func(err error) { t.Error(err) }
		for _, r := range info.Ranks {
			ids = append(ids, listeners[n].ExpectRank(s, r))
		}
	}
	done := make(chan struct{})
	var ranks, crowd sync.WaitGroup
	for i, id := range ids {
		ranks.Go(func() {
			conn, end := connectNew(listeners[i/per])
			if err := connectByPort(conn, id, len(ids), done); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
			conn.Close()
			if err := <-end; err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	for k := range 4 {
		crowd.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			for range junk / 4 {
				conn, end := connectNew(listeners[rng.IntN(nodes)])
				go io.Copy(io.Discard, conn)
				io.WriteString(conn, nonsense(rng))
				conn.Close()
				if err := <-end; !errors.Is(err, pmiserver.ErrNoRank) {
					t.Errorf("junk is taken for a rank: %v", err)
				}
			}
		})
	}
	crowd.Wait()
	close(done)
	ranks.Wait()
}

// connectByPort is a rank that connects by PMI_PORT, and exchanges cards until done, and once more.
func connectByPort(conn io.ReadWriter, id, size int, done chan struct{}) error {
	c := pmitest.NewClient(conn)
	place, err := c.Acknowledge(id)
	if err != nil {
		return err
	}
	if err := c.Init(); err != nil {
		return err
	}
	for round := 0; ; round++ {
		over := "no"
		if place.Rank == 0 {
			select {
			case <-done:
				over = "yes"
			default:
			}
			if err := c.Put(fmt.Sprint("over-", round), over); err != nil {
				return err
			}
		}
		if err := c.Exchange(place.Rank, size, strings.Repeat("x", 50)); err != nil {
			return err
		}
		if over, _, err = c.Get(fmt.Sprint("over-", round)); err != nil {
			return err
		}
		if over == "yes" {
			return c.Finalize()
		}
	}
}

// nonsense returns the input of an invalid client: noise, or almost the right thing.
func nonsense(rng *rand.Rand) string {
	noise := make([]byte, rng.IntN(200))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	start := []string{
		"", "cmd=", "cmd=initack", "cmd=initack pmiid=", "cmd=initack pmiid=1\n", "mcmd=spawn\n", "GET / HTTP/1.1\r\n",
		"cmd=init pmi_version=1\n", "cmd=init pmi_version=2\n", "cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;",
		"cmd=init pmi_version=2\n999999", "cmd=abort exitcode=1\n", "cmd=barrier_in\n",
	}
	return start[rng.IntN(len(start))] + string(noise)
}

// Whatever a singleton sends, it is not kept waiting.
func TestRefuseSingleton(t *testing.T) {
	const hello = "cmd=singinit authtype=none\n"
	for sent, want := range map[string]string{
		"cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n": hello + "cmd=singinit_info versionok=no stdio=no kvsname=none\n",
		"GET / HTTP/1.1\r\n":       hello,
		"cmd=init pmi_version=1\n": hello,
		"cmd=singinit but no more": hello,
	} {
		synctest.Test(t, func(t *testing.T) {
			mine, theirs := net.Pipe()
			began := time.Now()
			go pmiserver.RefuseSingleton(theirs)
			var reply []byte
			over := make(chan struct{})
			go func() {
				reply, _ = io.ReadAll(mine)
				close(over)
			}()
			io.WriteString(mine, sent)
			<-over
			if string(reply) != want || time.Since(began) > time.Second {
				t.Errorf("%q is answered %q after %v, want %q", sent, reply, time.Since(began), want)
			}
		})
	}
}

// After several wrong PMI_IDs all connections are refused. Ranks that connected before come to no
// harm.
func TestGuessesOfIDs(t *testing.T) {
	server := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0, 1}}, nil)
	var d pmiserver.Listener
	ids := []int{d.ExpectRank(server, 0), d.ExpectRank(server, 1)}
	say := func(id int) string {
		t.Helper()
		client, _ := connectNew(&d)
		defer client.Close()
		fmt.Fprintf(client, "cmd=initack pmiid=%d\n", id)
		answer := make([]byte, 100)
		n, err := client.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer[:n])
	}
	for guess := range 15 {
		if got := say(-1 - guess); got != "cmd=initack rc=-1\n" {
			t.Errorf("guess %d: %q", guess, got)
		}
	}
	if got := say(ids[0]); got == "cmd=initack rc=-1\n" {
		t.Errorf("who knows after 15 guesses: %q", got)
	}
	say(-99)
	if got := say(ids[1]); got != "cmd=initack rc=-1\n" {
		t.Errorf("after 16 guesses: %q", got)
	}
}
