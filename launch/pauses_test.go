//go:build linux

package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/transport"
)

// A stopping dialer stops mpiexec as by ^Z at one moment of a start, for longer than any deadline.
// Meanwhile nothing here goes on, as in a process that the kernel has stopped.
type stopping struct {
	launchtest.Dialer
	r     *launchtest.Run
	stage string
	stops atomic.Int32
}

// stopFor is longer than each deadline of the jobs below.
const stopFor = 13 * time.Second

// at is called at each stage of the start; it stops mpiexec once, at s.stage.
func (s *stopping) at(stage string) bool {
	if stage != s.stage || s.stops.Add(1) > 1 {
		return false
	}
	s.r.Signals <- syscall.SIGTSTP
	<-s.r.Suspended
	<-time.After(stopFor)
	s.r.Suspended <- struct{}{}
	return true
}

func (s *stopping) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, s.dial)
}

func (s *stopping) dial(ctx context.Context, host transport.Host) (io.ReadWriteCloser, error) {
	if s.at("dial") {
		return nil, errors.New("the connection was given up meanwhile")
	}
	rw, err := s.Dialer.DialHost(ctx, host)
	if err != nil {
		return nil, err
	}
	return &stoppingConn{rw, s, new(atomic.Int32)}, nil
}

type stoppingConn struct {
	io.ReadWriteCloser
	s      *stopping
	writes *atomic.Int32
}

func (c *stoppingConn) Read(p []byte) (int, error) {
	c.s.at("greeting")
	return c.ReadWriteCloser.Read(p)
}

func (c *stoppingConn) Write(p []byte) (int, error) {
	c.s.at(fmt.Sprint("write ", c.writes.Add(1)))
	return c.ReadWriteCloser.Write(p)
}

// ^Z at any stage of a start moves all of its deadlines (SIG-5, TRUST-34): the job starts after
// SIGCONT.
func TestStoppedAtEachStageOfAStart(t *testing.T) {
	for _, stage := range []string{"dial", "greeting", "planned", "write 1", "write 2", "write 3", "write 4"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			r := launchtest.NewRun(2, `echo hello`, "a", "b")
			s := &stopping{r: r, stage: stage}
			r.Dialer, r.OnPlan = s, func() { s.at("planned") }
			r.ReplyLimit = 12 * time.Second
			r.Req.TimeLimits.Start = 12 * time.Second
			result, err := r.Do(t)
			if err != nil || result.Code != 0 || r.Out.String() != "hello\nhello\n" {
				t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
			}
			if s.stops.Load() == 0 {
				t.Error("the job was never stopped")
			}
		})
	}
}

// The time limit of a job with several attempts does not run while an attempt is stopped, nor while
// mpiexec is stopped between two attempts.
func TestTheTimeLimitStandsStillInEachAttempt(t *testing.T) {
	for _, moment := range []string{"in the first attempt", "between the attempts"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			r := launchtest.NewRun(1, `[ $MPIEXEC_ATTEMPT = 1 ] || { trap 'exit 3' USR1; echo first; while :; do :; done; }`, "a")
			s := &stopping{r: r, stage: "planned"}
			attempts, ready := 0, r.Out.Shows("first\n")
			r.OnPlan = func() {
				if attempts++; attempts == 2 && moment == "between the attempts" {
					s.at("planned")
				}
			}
			r.Req.TimeLimits.Run = stopFor
			r.Req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
			go func() {
				<-ready
				if moment == "in the first attempt" {
					s.at("planned")
				}
				r.Signals <- syscall.SIGUSR1
			}()
			if result, err := r.Do(t); err != nil || result.Code != 0 || s.stops.Load() != 1 {
				t.Errorf("code %d, %v, stopped %d times, stderr %q", result.Code, err, s.stops.Load(), r.Err.String())
			}
		})
	}
}

// A start that was not stopped reaches its deadline.
func TestALateStart(t *testing.T) {
	r := launchtest.NewRun(1, `true`, "a")
	r.Dialer = silent{}
	r.ReplyLimit = 100 * time.Millisecond
	if _, err := r.Do(t); err == nil {
		t.Error("a host that says nothing was waited for")
	}
}

// A silent host accepts the connection and sends nothing.
type silent struct{}

func (silent) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, func(context.Context, transport.Host) (io.ReadWriteCloser, error) {
		near, _ := net.Pipe()
		return near, nil
	})
}
