package sshx

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// A Session is a running remote command. Read reads the command's stdout, and Write writes to the command's stdin.
// One goroutine may call Read while another calls Write.
type Session struct {
	client *Client
	ch     ssh.Channel
	stderr Tail

	done chan struct{} // closed when status is set
	// status is nil after exit code 0. Else it is an *ExitError, or the reason why there is no exit
	// status. Read it only after done.
	status error
}

var _ io.ReadWriteCloser = (*Session)(nil)

// An ExitError says how a command ended if it did not exit with code 0.
type ExitError struct {
	Code    int    // exit code; 0 if a signal ended the command
	Signal  string // without SIG; empty if no signal ended the command
	Message string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "killed by signal " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// ErrNoStatus is returned if the server closes the session without sending an exit status.
var ErrNoStatus = errors.New("the server did not report how the command ended")

// stderrBuffer is the size in bytes of the buffer for reading stderr. Each session has such a buffer until it ends,
// and stderr is nearly always empty. io.Copy would allocate 32 KiB.
const stderrBuffer = 1 << 10

func newSession(c *Client, ch ssh.Channel, reqs <-chan *ssh.Request) *Session {
	s := &Session{client: c, ch: ch, done: make(chan struct{})}
	var stderr sync.WaitGroup
	// Unread stderr would use up the window that stdout needs too.
	stderr.Go(func() { io.CopyBuffer(&s.stderr, ch.Stderr(), make([]byte, stderrBuffer)) })
	go s.watch(reqs, stderr.Wait)
	return s
}

// watch handles the server's requests for the session, such as the exit status, until the session is closed (RFC 4254
// section 6.10). Then it calls waitStderr.
func (s *Session) watch(reqs <-chan *ssh.Request, waitStderr func()) {
	s.status = ErrNoStatus
	for r := range reqs {
		switch r.Type {
		case "exit-status":
			var m struct{ Code uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				s.status = nil
				if m.Code != 0 {
					s.status = &ExitError{Code: int(m.Code)}
				}
			}
		case "exit-signal":
			var m struct {
				Signal  string
				Core    bool
				Message string
				Lang    string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				s.status = &ExitError{Signal: m.Signal, Message: m.Message}
			}
		}
		if r.WantReply {
			r.Reply(false, nil)
		}
	}
	waitStderr()
	close(s.done)
}

// Read reads the command's stdout. It returns io.EOF only if the command has closed stdout. If the connection
// has broken, it returns a different error.
func (s *Session) Read(p []byte) (int, error) {
	n, err := s.ch.Read(p)
	if err == io.EOF && s.client.transport.readError.Load() != nil {
		if e := s.Wait(); errors.Is(e, ErrNoStatus) {
			<-s.client.done
			return n, s.client.Err()
		}
	}
	return n, err
}

// Write writes to the command's stdin.
func (s *Session) Write(p []byte) (int, error) {
	n, err := s.ch.Write(p)
	if err != nil {
		if e := s.client.Err(); e != nil {
			err = e
		}
	}
	return n, err
}

// CloseWrite closes the command's stdin.
func (s *Session) CloseWrite() error { return s.ch.CloseWrite() }

// Close ends the session without waiting for the command. Unread output is lost. The client stays connected.
func (s *Session) Close() error {
	err := s.ch.Close()
	if err == io.EOF { // both sides closed it at the same time
		err = nil
	}
	return err
}

// Wait waits for the end of the session. It returns nil if the command exited with code 0. Otherwise it returns an
// *ExitError or ErrNoStatus. Another goroutine must read stdout while Wait waits.
func (s *Session) Wait() error {
	<-s.done
	return s.status
}

// Stderr returns the last 4 KiB that the login shell and the command have written to stderr so far.
func (s *Session) Stderr() string { return s.stderr.String() }

// A Tail is a writer that keeps the last 4 KiB written to it, for error messages. The zero value is ready to
// use.
type Tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

const tailMax = 4 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailMax):]...)
	if n := len(t.text) - tailMax; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// String returns the text that the Tail has kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Line returns the last line that is not blank.
func (t *Tail) Line() string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
