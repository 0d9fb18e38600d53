package sshx

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
)

// TestMain lets the test program act as two others. One is a ProxyCommand, which connects its streams
// to an address. The other is a server, whose CPU time must not count as ours.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("SSHX_TEST_PROXY") != "" && len(os.Args) == 2:
		proxyMain(os.Args[1])
	case os.Getenv("SSHX_TEST_SERVER") != "":
		serverMain(os.Getenv("SSHX_TEST_SERVER"))
	default:
		os.Exit(m.Run())
	}
}

func proxyMain(addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		io.Copy(c, os.Stdin)
		os.Exit(0)
	}()
	io.Copy(os.Stdout, c)
}

// serverMain serves the owner of a key, given as in authorized_keys, until its input ends. It prints
// the line for known_hosts.
func serverMain(authorized string) {
	s, err := sshtest.New(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{parsePublic([]byte(authorized))}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(s.KnownHosts())
	io.Copy(io.Discard, os.Stdin)
	s.Close()
}

// serverProcess starts serverMain and returns a target for it.
func (p *testHome) serverProcess() Target {
	p.t.Helper()
	self, err := os.Executable()
	check(p.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "SSHX_TEST_SERVER="+string(ssh.MarshalAuthorizedKey(p.key)))
	in, err := cmd.StdinPipe()
	check(p.t, err)
	out, err := cmd.StdoutPipe()
	check(p.t, err)
	check(p.t, cmd.Start())
	p.t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check(p.t, err)
	p.write(".ssh/known_hosts", line)
	name, _, _ := strings.Cut(line, " ")
	return p.target(strings.NewReplacer("[", "", "]", "").Replace(name))
}

// BenchmarkDial measures one host on the launching side: connect, log in, run a command, close.
// cpu-µs/dial is the CPU time of this process alone. 64 dials run at the same time.
func BenchmarkDial(b *testing.B) {
	for _, kex := range []string{"", ssh.KeyExchangeCurve25519} {
		name := "kex=default"
		if kex != "" {
			name = "kex=" + kex
		}
		b.Run(name, func(b *testing.B) {
			p := newTestHome(b)
			target := p.serverProcess()
			if kex != "" {
				target.Kex = []string{kex}
			}
			p.d.Pacer = &Pacer{PerServer: 64}
			b.ResetTimer()
			before := cpuTime()
			var wg sync.WaitGroup
			places := make(chan struct{}, 64)
			for range b.N {
				places <- struct{}{}
				wg.Go(func() {
					defer func() { <-places }()
					c, err := p.d.Dial(context.Background(), target)
					if err != nil {
						b.Error(err)
						return
					}
					output(b, c, "true")
					c.Close()
				})
			}
			wg.Wait()
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/dial")
		})
	}
}

// BenchmarkHeld measures an idle connection with a session in which a command runs: live heap and
// stacks in KiB, goroutines, and the CPU time to set it up. If these do not grow with the number of
// connections, it is flat.
func BenchmarkHeld(b *testing.B) {
	for _, hosts := range []int{64, 250, 500, 1000} {
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			for b.Loop() {
				p := newTestHome(b)
				target := p.serverProcess()
				p.d.Pacer = &Pacer{PerServer: 32}
				p.dial(target).Close() // fills the caches
				before, cpu := held(), cpuTime()
				var all sync.WaitGroup
				for range hosts {
					all.Go(func() {
						c, err := p.d.Dial(context.Background(), target)
						if err == nil {
							b.Cleanup(func() { c.Close() })
							_, err = c.Start(context.Background(), "cat")
						}
						if err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				used := cpuTime() - cpu
				after, each := held(), 1/float64(hosts)
				b.ReportMetric(each*float64(after.HeapAlloc-before.HeapAlloc)/1024, "heap-KiB/host")
				b.ReportMetric(each*float64(after.StackInuse-before.StackInuse)/1024, "stack-KiB/host")
				b.ReportMetric(each*float64(used.Microseconds()), "cpu-µs/host")
			}
		})
	}
}

// held returns the memory in use after two garbage collections, which shrink stacks too.
func held() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// cpuTime returns the CPU time of this process so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStream measures the throughput of a session, and the CPU time of a byte.
func BenchmarkStream(b *testing.B) {
	p := newTestHome(b)
	c := p.dial(p.serverProcess())
	s, err := c.Start(context.Background(), "cat")
	check(b, err)
	defer s.Close()
	chunk := make([]byte, 256<<10)
	b.SetBytes(int64(2 * len(chunk))) // both directions
	b.ResetTimer()
	before := cpuTime()
	go func() {
		for range b.N {
			s.Write(chunk)
		}
		s.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, s)
	check(b, err)
	if n != int64(b.N*len(chunk)) {
		b.Errorf("%d bytes came back of %d", n, b.N*len(chunk))
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(2*n), "cpu-ns/B")
}

// BenchmarkBare connects with a bare x/crypto client. It is the lower bound for BenchmarkDial.
func BenchmarkBare(b *testing.B) {
	p := newTestHome(b)
	target := p.serverProcess()
	key, err := os.ReadFile(p.home + "/.ssh/id_ed25519")
	check(b, err)
	signer, err := ssh.ParsePrivateKey(key)
	check(b, err)
	config := &ssh.ClientConfig{User: "alice", HostKeyCallback: ssh.InsecureIgnoreHostKey(), Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}}
	b.ResetTimer()
	before := cpuTime()
	var wg sync.WaitGroup
	places := make(chan struct{}, 64)
	for range b.N {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			c, err := ssh.Dial("tcp", target.addr(), config)
			if err != nil {
				b.Error(err)
				return
			}
			s, err := c.NewSession()
			if err == nil {
				_, err = s.Output("true")
			}
			if err != nil {
				b.Error(err)
			}
			c.Close()
		})
	}
	wg.Wait()
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/dial")
}

// 10,000 connections wait for permits, for one server or one each.
func BenchmarkPacer(b *testing.B) {
	const hosts = 10_000
	for _, servers := range []int{1, hosts} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			for b.Loop() {
				p := Pacer{Fanout: 1}
				first, err := p.Acquire(b.Context(), "0")
				check(b, err)
				entered := make(chan struct{}, hosts)
				var all sync.WaitGroup
				for i := range hosts {
					all.Go(func() {
						entered <- struct{}{}
						w, err := p.Acquire(b.Context(), fmt.Sprint(i%servers))
						check(b, err)
						w.Release(LoggedIn, nil)
					})
				}
				for range hosts {
					<-entered
				}
				first.Release(LoggedIn, nil)
				all.Wait()
			}
		})
	}
}
