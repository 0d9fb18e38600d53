package sshx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remshell/deadline"
)

// The C library is asked for names that files and name servers do not know, or find too slowly.
func TestLookup(t *testing.T) {
	noLeak(t)
	const silent = "silent" // no reply until the time limit
	one := func(text string, ask func()) func(context.Context, string, string) ([]netip.Addr, error) {
		return func(ctx context.Context, family, host string) ([]netip.Addr, error) {
			ask()
			switch text {
			case silent:
				<-ctx.Done()
				return nil, ctx.Err()
			case "unknown":
				return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
			case "outage":
				return nil, &net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53"}
			case "":
				return nil, nil
			}
			return []netip.Addr{netip.MustParseAddr(text)}, nil
		}
	}
	for _, test := range []struct {
		own, system string
		want        string
		asked       bool // the C library is asked
	}{
		{"10.0.0.1", "10.0.0.2", "[10.0.0.1]", false},
		{"unknown", "10.0.0.2", "[10.0.0.2]", true},
		{"", "10.0.0.2", "[10.0.0.2]", true},
		{"outage", "10.0.0.2", "[10.0.0.2]", true},
		{silent, "10.0.0.2", "[10.0.0.2]", true},
		{"unknown", "unknown", "the host name is unknown", true},
		{"unknown", "", "the host name is unknown", true},
		{"outage", "", "server misbehaving (name server 10.0.0.53:53)", true},
		{"unknown", silent, "the host name is unknown", true},
		{silent, "", "no answer", true},
	} {
		var asked atomic.Bool
		d := &Dialer{Lookup: one(test.own, func() {}), LookupSystem: one(test.system, func() { asked.Store(true) })}
		limit := time.Minute
		if test.own == silent || test.system == silent {
			limit = 200 * time.Millisecond
		}
		b := deadline.New(t.Context(), limit, errDeadline, nil)
		addrs, err := d.lookup(b, Target{Alias: "n1", HostName: "n1"})
		got := fmt.Sprint(addrs)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, test.want) || asked.Load() != test.asked {
			t.Errorf("we find %q, the system %q: %s (system asked: %t), want %s", test.own, test.system, got, asked.Load(), test.want)
		}
		b.Stop()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user has it so"))
	b := deadline.New(ctx, time.Minute, errDeadline, nil)
	defer b.Stop()
	if _, err := (&Dialer{Lookup: one(silent, func() {})}).lookup(b, Target{Alias: "n1", HostName: "n1"}); err == nil || err.Kind != KindCanceled {
		t.Error(err)
	}
}

// getent is run once for each name, and only a limited number at the same time.
func TestLocalAddresses(t *testing.T) {
	noLeak(t)
	dir := t.TempDir()
	script := `#!/bin/sh
mkdir ` + dir + `/$$.runs && ls -d ` + dir + `/*.runs | wc -l >>` + dir + `/most
echo "$@" >>` + dir + `/calls
rmdir ` + dir + `/$$.runs
case $2 in n*) echo "10.0.0.${2#n} STREAM $2"; echo "10.0.0.${2#n} DGRAM";; *) exit 2;; esac
`
	check(t, os.WriteFile(dir+"/getent", []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	l := local(t, 1, time.Minute)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := fmt.Sprintf("n%d", i%50)
			addrs, err := l.Addresses(t.Context(), "inet", name)
			if want := fmt.Sprintf("[10.0.0.%d]", i%50); err != nil || fmt.Sprint(addrs) != want {
				t.Errorf("%s: %v %v, want %s", name, addrs, err, want)
			}
		})
	}
	all.Wait()
	if addrs, err := l.Addresses(t.Context(), "any", "other"); len(addrs) > 0 || err != nil {
		t.Error(addrs, err)
	}
	calls, _ := os.ReadFile(dir + "/calls")
	if n := strings.Count(string(calls), "\n"); n != 51 || !strings.Contains(string(calls), "ahostsv4 n7\n") || !strings.Contains(string(calls), "ahosts other\n") {
		t.Errorf("%d calls: %s", n, calls)
	}
	most, _ := os.ReadFile(dir + "/most")
	for n := range strings.FieldsSeq(string(most)) {
		if len(n) > 1 || n > "8" {
			t.Errorf("%s at a time", n)
		}
	}
	check(t, os.Remove(dir+"/getent"))
	t.Setenv("PATH", dir)
	if addrs, err := l.Addresses(t.Context(), "any", "n99"); len(addrs) > 0 || err == nil {
		t.Errorf("without getent: %v, %v", addrs, err)
	}
}
