package sshx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// answers is a Machine for tests. It records the questions.
type answers struct {
	exec  map[string]error  // commands that do not exit with 1; nil means exit status 0
	hosts map[string]string // names with an address, and their canonical names
	homes map[string]string
	asked []string
}

var _ Machine = (*answers)(nil)

// nowhere has no answers.
var nowhere = &answers{}

func (a *answers) Exec(_ context.Context, command string) (bool, error) {
	a.asked = append(a.asked, command)
	err, ok := a.exec[command]
	return ok && err == nil, err
}

func (a *answers) Canonical(_ context.Context, family, host string) (string, bool, error) {
	a.asked = append(a.asked, host)
	canonical, ok := a.hosts[host]
	return canonical, ok, nil
}

func (a *answers) HomeOf(_ context.Context, user string) (string, error) {
	if home := a.homes[user]; home != "" {
		return home, nil
	}
	return "", errors.New("no such user")
}

// Questions that the files leave open go to the machine, in this order, and no others.
func TestResolveAsks(t *testing.T) {
	p := newTestHome(t)
	machine := answers{
		exec: map[string]error{"yes": nil, "slow": errors.New("no answer in 10 s")},
		hosts: map[string]string{"n1.a.example.": "n1.a.example", "www.b.example.": "web.c.example", "bare": "web.c.example",
			"evil.b.example.": "$(x).c.example"},
	}
	tests := []struct{ name, config, alias, asked, want string }{
		{"exec once for each line", "Match exec yes\nUser a\nMatch exec no\nPort 1\nMatch exec yes\nPort 2", "n1", "yes no yes", "n1:2"},
		{"the criteria before decide", "Match host n2 exec yes\nPort 1\nMatch exec no exec yes\nPort 2\nMatch exec yes host n1\nPort 3", "n1", "no yes", "n1:3"},
		{"not", "Match !exec no !exec yes\nPort 1\nMatch !exec no\nPort 2", "n1", "no yes no", "n1:2"},
		{"no settings", "Match exec yes\nMatch exec slow\nHost *\nPort 4", "n1", "", "n1:4"},
		{"in the final pass, too", "Match exec %h\nPort 1\nMatch final\nUser x\nHost n1\nHostName n1.example", "n1", "n1 n1.example", "n1.example:22"},
		{"port of a jump host", "Match exec %p\nUser x\nHost n1\nProxyJump gate:24", "n1", "22 24", "n1:22"},
		{"slow", "Match exec slow\nPort 1", "n1", "slow", `config:1: Match exec: "slow": no answer in 10 s`},
		{"unknown token", "Match exec %Q\nPort 1", "n1", "", "config:1: Match exec: unknown token %Q"},
		{"no names for a shell", "HostName $(x)\nMatch exec %h\nPort 1", "n1", "", `config:2: Match exec: "$(x)" cannot be`},

		{"no canonical name", "CanonicalDomains a.example", "n1", "", "n1:22"},
		{"first domain that has it", "CanonicalizeHostname yes\nCanonicalDomains b.example a.example c.example", "n1", "n1.b.example. n1.a.example.", "n1.a.example:22"},
		{"in none", "CanonicalizeHostname yes\nCanonicalDomains a.example", "n2", "n2.a.example.", "n2:22"},
		{"in none, and has to be", "CanonicalizeHostname yes\nCanonicalDomains a.example\nCanonicalizeFallbackLocal no", "n2", "n2.a.example.", "config:3: CanonicalizeFallbackLocal: the host has no address"},
		{"dots", "CanonicalizeHostname yes\nCanonicalDomains a.example\nCanonicalizeFallbackLocal no", "a.b.c", "", "a.b.c:22"},
		{"an address", "CanonicalizeHostname yes\nCanonicalDomains a.example", "127.1", "", "127.0.0.1:22"},
		{"behind a program", "CanonicalizeHostname yes\nCanonicalDomains a.example\nProxyCommand nc %h %p", "n1", "", "n1:22"},
		{"always", "CanonicalizeHostname always\nCanonicalDomains a.example\nProxyCommand nc %h %p", "n1", "n1.a.example.", "n1.a.example:22"},
		{"alias allowed", "CanonicalizeHostname yes\nCanonicalDomains b.example\nCanonicalizePermittedCNAMEs *.b.example:*.c.example", "www", "www.b.example.", "web.c.example:22"},
		{"alias not allowed", "CanonicalizeHostname yes\nCanonicalDomains b.example\nCanonicalizePermittedCNAMEs *:*.b.example", "www", "www.b.example.", "www.b.example:22"},
		{"alias that is no name", "CanonicalizeHostname yes\nCanonicalDomains b.example\nCanonicalizePermittedCNAMEs *:*", "evil", "evil.b.example.", "evil.b.example:22"},
		{"address of another family", "AddressFamily inet6\nCanonicalizeHostname yes", "127.1", "", "127.1:22"},
		{"alias of a bare name", "CanonicalizeHostname yes\nCanonicalDomains d.example\nCanonicalizePermittedCNAMEs *:*", "bare", "bare.d.example. bare", "web.c.example:22"},
		{"bad rule", "CanonicalizeHostname yes\nCanonicalDomains b.example\nCanonicalizePermittedCNAMEs b.example", "www", "www.b.example.", "config:3: CanonicalizePermittedCNAMEs: "},
		{"settings for the canonical name", "CanonicalizeHostname yes\nCanonicalDomains a.example\nHost n1.a.example\nPort 7", "n1", "n1.a.example.", "n1.a.example:7"},
	}
	for _, tt := range tests {
		machine.asked = nil
		target, err := p.config(tt.config+"\n").Resolve(context.Background(), tt.alias, p.me(), &machine)
		got := fmt.Sprintf("%s:%d", target.HostName, target.Port)
		if err != nil {
			got = err.Error()
		}
		if asked := strings.Join(machine.asked, " "); asked != tt.asked || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s and asked for %q, want %s and %q", tt.name, got, asked, tt.want, tt.asked)
		}
	}
}

// local returns a LocalMachine with its own limit for commands.
func local(t *testing.T, most int, limit time.Duration) *LocalMachine {
	l := NewLocalMachine("/bin/sh", most)
	l.limit = limit
	t.Cleanup(l.Close)
	return l
}

// For 1,000 hosts, equal commands run once, and a limited number of different ones at the same time.
func TestLocalBounds(t *testing.T) {
	noLeak(t)
	dir := t.TempDir()
	l := local(t, 3, time.Minute)
	script := `echo >>` + dir + `/common; exit 0`
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			if ok, err := l.Exec(context.Background(), script); !ok || err != nil {
				t.Error(ok, err)
			}
			if i%50 == 0 {
				own := fmt.Sprintf("mkdir %[1]s/%[2]d.runs && ls -d %[1]s/*.runs | wc -l >>%[1]s/most && rmdir %[1]s/%[2]d.runs; exit 1", dir, i)
				if ok, err := l.Exec(context.Background(), own); ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
	all.Wait()
	if data, err := os.ReadFile(dir + "/common"); err != nil || len(data) != 1 {
		t.Errorf("ran %d times: %v", len(data), err)
	}
	data, err := os.ReadFile(dir + "/most")
	counts := strings.Fields(string(data))
	if err != nil || len(counts) != 20 || slices.ContainsFunc(counts, func(n string) bool { return n > "3" }) {
		t.Errorf("ran at a time: %v, %v", counts, err)
	}
}

func TestLocalExec(t *testing.T) {
	noLeak(t)
	l := local(t, 8, time.Minute)
	for command, want := range map[string]string{
		"true":                           "true",
		"exit 7":                         "false",
		"cat; test ! -t 0":               "true",
		"no-such-program-here":           "false",
		"kill -9 $$":                     "killed by signal KILL",
		"echo lots of words; echo >&2 x": "true",
		"sleep 3 & true":                 "true", // a background process is left alone
	} {
		ok, err := l.Exec(context.Background(), command)
		got := fmt.Sprint(ok)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	none := NewLocalMachine("/no/such/shell", 1)
	defer none.Close()
	if _, err := none.Exec(context.Background(), "true"); err == nil || !strings.Contains(err.Error(), "/no/such/shell cannot be started: no such file") {
		t.Error(err)
	}
}

// A command ends at its limit or with the machine, with all processes that it has started. The caller
// need not wait for them.
func TestLocalExecEnds(t *testing.T) {
	noLeak(t)
	if _, err := local(t, 1, 300*time.Millisecond).Exec(context.Background(), "sleep 1000"); err == nil || err.Error() != "the program did not end within 300 ms" {
		t.Error(err)
	}
	// After an error the command runs again.
	once := local(t, 1, 300*time.Millisecond)
	mark := t.TempDir() + "/mark"
	script := "test -e " + mark + " || exec sleep 1000"
	if _, err := once.Exec(context.Background(), script); err == nil {
		t.Error("no error")
	}
	check(t, os.WriteFile(mark, nil, 0o600))
	once.limit = time.Hour
	if ok, err := once.Exec(context.Background(), script); err != nil || !ok {
		t.Error(ok, err)
	}
	fifo := t.TempDir() + "/fifo"
	check(t, syscall.Mkfifo(fifo, 0o600))
	l := local(t, 1, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := l.Exec(ctx, "(sleep 1000 & echo begun; wait) >"+fifo)
		failed <- err
	}()
	f, err := os.Open(fifo)
	check(t, err)
	defer f.Close()
	output := bufio.NewReader(f)
	if line, err := output.ReadString('\n'); line != "begun\n" {
		t.Fatal(line, err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.Close()
	if _, err := output.ReadByte(); err != io.EOF { // all writers have closed the pipe
		t.Error(err)
	}
	if _, err := l.Exec(context.Background(), "true"); err == nil {
		t.Error("runs commands after the end")
	}
}

func TestLocalHomeOf(t *testing.T) {
	l := local(t, 1, time.Minute)
	if home, err := l.HomeOf(context.Background(), "daemon"); home == "" || err != nil {
		t.Error(home, err)
	}
	if home, err := l.HomeOf(context.Background(), "no-such-user"); home != "" || err == nil || err.Error() != "user: unknown user no-such-user" {
		t.Error(home, err)
	}
}
