package transport

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/sshx"
	"remshell/test/sshtest"
)

// A server that was started for this job is used with the user, port and key of its login, whatever the
// user's configuration says. Its first host key is accepted, and from then on no other. Keys of other
// servers are not accepted.
func TestLoginToAServerOfThisJob(t *testing.T) {
	s := newSite(t, sshtest.Options{Users: []string{"jane"}})
	tmp := filepath.Join(s.dir, "tmp")
	check(t, os.Mkdir(tmp, 0o755))
	login := SSHLogin{User: "jane", Port: s.server.Port(), Key: filepath.Join(tmp, "1.key")}
	check(t, os.Rename(s.key, login.Key))
	check(t, os.WriteFile(s.known, nil, 0o600))
	s.target = sshx.Target{HostName: "127.0.0.1", Port: 1, User: "u", UserKnownHosts: []string{s.known}, Home: s.dir, HostKeyAlias: "old", Strict: "yes"}
	s.JobLogins = func(name string) (SSHLogin, bool) { return login, name == "n1" }
	reached := func(host Host) error {
		t.Helper()
		dialer := &sshx.Dialer{Timeout: time.Minute, Retries: 1, // reads known_hosts again
			Recorded: func(file string) { t.Errorf("the user is told of %s, which goes with the job", file) }}
		defer dialer.Close()
		conn, err := dialHost(t, &SSH{Self: s.Self, Dialer: dialer, Resolve: s.Resolve, JobLogins: s.JobLogins}, host)
		if err == nil {
			conn.Close()
		}
		return err
	}
	unknown := func(host Host) {
		t.Helper()
		var e *sshx.DialError
		if err := reached(host); !errors.As(err, &e) || e.Kind != sshx.KindUnknownKey {
			t.Errorf("%+v: %v, want an unknown host key", host, err)
		}
	}
	s.target.Identities, s.target.Port = []string{login.Key}, login.Port
	unknown(Host{Name: "n2"})                                 // not a host of the job
	unknown(Host{Name: "n1", User: "jane", Port: login.Port}) // the user names user and port
	unknown(Host{Name: "n1", Address: "127.0.0.1"})           // the user names the address
	s.target.Identities, s.target.Port = nil, 1
	if route, err := s.Route(Host{Name: "n1"}); err != nil || route != "ssh to 127.0.0.1 port "+strconv.Itoa(login.Port)+" as jane" {
		t.Errorf("route %q, %v", route, err)
	}
	for range 2 {
		check(t, reached(Host{Name: "n1"}))
	}
	recorded, err := os.ReadFile(filepath.Join(tmp, "known_hosts"))
	if mine, _ := os.ReadFile(s.known); err != nil || strings.Count(string(recorded), "\n") != 1 || !strings.HasPrefix(string(recorded), "[127.0.0.1]:"+strconv.Itoa(login.Port)+" ") || len(mine) > 0 {
		t.Errorf("recorded %q, %v, and %q in the user's file", recorded, err, mine)
	}
	check(t, s.server.Close())
	other, err := sshtest.New(sshtest.Options{Addr: "127.0.0.1:" + strconv.Itoa(login.Port), Users: []string{"jane"}})
	check(t, err)
	t.Cleanup(func() { other.Close() })
	var e *sshx.DialError
	if err := reached(Host{Name: "n1"}); !errors.As(err, &e) || e.Kind != sshx.KindChangedKey {
		t.Errorf("another server in its place: %v, want a changed host key", err)
	}
}
