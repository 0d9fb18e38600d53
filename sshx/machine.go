package sshx

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"remshell/nsswitch"
)

// A Machine runs the commands and looks up the names to which a configuration refers. Its methods may be called
// from any goroutine.
type Machine interface {
	// Exec runs a command with the user's shell, and reports whether it exits with 0 (Match exec).
	Exec(ctx context.Context, command string) (bool, error)
	// Canonical looks a host up as getaddrinfo(3) does with AI_CANONNAME, for addresses of a family
	// (inet, inet6, else any). found is false if it has no address. canonical may be empty.
	Canonical(ctx context.Context, family, host string) (canonical string, found bool, err error)
	// HomeOf returns the home directory of a user.
	HomeOf(ctx context.Context, user string) (string, error)
}

// A LocalMachine is the Machine on which this process runs. It runs each command and looks each name up only
// once, except after an error.
type LocalMachine struct {
	shell string
	limit time.Duration // time limit of one command
	slots chan struct{} // limits the commands that run at the same time
	names chan struct{} // limits the look-ups of addresses at the same time

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // running commands and look-ups

	mu      sync.Mutex // guards results; nothing starts after Close
	results map[string]*cachedResult
}

var _ Machine = (*LocalMachine)(nil)

// lookupLimit is how long a look-up by the C library may take. A name that was not found in this time is
// treated as unknown. The C library itself waits ten seconds or more for each name server that does not reply.
const lookupLimit = time.Minute

// A cachedResult is the result of a command or a look-up.
type cachedResult struct {
	done chan struct{} // closed when the fields below are set
	text string
	ok   bool
	err  error
}

// maxLookups is the maximum number of look-ups that run at the same time. It is small because the C library may
// pass all look-ups to one daemon.
const maxLookups = 8

// NewLocalMachine returns a LocalMachine that runs commands with a shell. At most parallel commands run at
// the same time; 0 means 1.
func NewLocalMachine(shell string, parallel int) *LocalMachine {
	l := &LocalMachine{shell: shell, limit: commandLimit, slots: make(chan struct{}, max(parallel, 1)), names: make(chan struct{}, maxLookups), results: map[string]*cachedResult{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close kills the running commands, and waits until they have ended.
func (l *LocalMachine) Close() {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.running.Wait()
}

// Exec runs a command and reports whether it exited with 0. It implements Machine.
func (l *LocalMachine) Exec(ctx context.Context, command string) (bool, error) {
	_, ok, err := l.lookUpOnce(ctx, l.slots, "exec "+command, func(ctx context.Context) (string, bool, error) {
		err := runCommand(ctx, l.limit, nil, l.shell, "-c", command)
		var exit *ExitError
		if errors.As(err, &exit) && exit.Signal == "" {
			return "", false, nil
		}
		return "", err == nil, err
	})
	return ok, err
}

// Canonical implements Machine. It returns the canonical name of a host. Like ssh, it asks the C library,
// which knows more sources than /etc/hosts and name servers. Names that end in a dot are not looked up in
// /etc/hosts.
func (l *LocalMachine) Canonical(ctx context.Context, family, host string) (canonical string, found bool, err error) {
	return l.lookUpOnce(ctx, l.slots, "host "+family+" "+host, func(ctx context.Context) (string, bool, error) {
		text, err := nsswitch.Getent(ctx, lookupLimit, hostDatabase(family), host)
		if errors.Is(err, exec.ErrNotFound) {
			return lookupCanonical(ctx, family, host)
		}
		addrs, canonical := nsswitch.ParseHosts(text)
		return canonical, len(addrs) > 0, err
	})
}

// Addresses looks a host up as getaddrinfo(3) does, for addresses of a family (inet, inet6, or any other word for
// both). On a system without getent, such as macOS, it returns no addresses. There Go's own resolver uses the C
// library.
func (l *LocalMachine) Addresses(ctx context.Context, family, host string) ([]netip.Addr, error) {
	text, _, err := l.lookUpOnce(ctx, l.names, "addresses "+family+" "+host, func(ctx context.Context) (string, bool, error) {
		text, err := nsswitch.Getent(ctx, lookupLimit, hostDatabase(family), host)
		return text, text != "", err
	})
	addrs, _ := nsswitch.ParseHosts(text)
	return addrs, err
}

func hostDatabase(family string) string {
	return cmp.Or(map[string]string{"inet": "ahostsv4", "inet6": "ahostsv6"}[family], "ahosts")
}

// lookupCanonical implements Canonical for machines without the program getent.
func lookupCanonical(ctx context.Context, family, host string) (canonical string, found bool, err error) {
	network := map[string]string{"inet": "ip4", "inet6": "ip6"}[family]
	if network == "" {
		network = "ip"
	}
	var dns *net.DNSError
	if _, err := net.DefaultResolver.LookupNetIP(ctx, network, host); err != nil {
		if errors.As(err, &dns) {
			err = nil
		}
		return "", false, err
	}
	canonical, _ = net.DefaultResolver.LookupCNAME(ctx, host)
	return strings.TrimSuffix(canonical, "."), true, nil
}

// HomeOf returns the home directory of a user. It implements Machine.
func (l *LocalMachine) HomeOf(ctx context.Context, name string) (string, error) {
	if u, err := user.Lookup(name); err == nil {
		return u.HomeDir, nil
	}
	home, found, err := l.lookUpOnce(ctx, l.slots, "user "+name, func(ctx context.Context) (string, bool, error) {
		text, err := nsswitch.Getent(ctx, lookupLimit, "passwd", name)
		if fields := strings.Split(text, ":"); len(fields) > 5 {
			return fields[5], true, err
		}
		return "", false, err
	})
	if err == nil && !found {
		err = user.UnknownUserError(name)
	}
	return home, err
}

// Account returns the account with a user ID. It returns a zero Account if there is no such account. The only
// possible error is the error of ctx.
func (l *LocalMachine) Account(ctx context.Context, uid int) (nsswitch.Account, error) {
	text, _, _ := l.lookUpOnce(ctx, l.slots, "account "+strconv.Itoa(uid), func(ctx context.Context) (string, bool, error) {
		text, err := nsswitch.Getent(ctx, lookupLimit, "passwd", strconv.Itoa(uid))
		return text, text != "", err
	})
	return nsswitch.ParseAccount(text, uid), context.Cause(ctx)
}

// lookUpOnce returns the result of find for a key. It calls find only once for each key, unless find returns an error.
// slots limits how many calls of find run at the same time.
func (l *LocalMachine) lookUpOnce(ctx context.Context, slots chan struct{}, key string, find func(context.Context) (string, bool, error)) (string, bool, error) {
	a, err := l.startLookup(slots, key, find)
	if err != nil {
		return "", false, err
	}
	select {
	case <-a.done:
		return a.text, a.ok, a.err
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
}

func (l *LocalMachine) startLookup(slots chan struct{}, key string, find func(context.Context) (string, bool, error)) (*cachedResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.results[key]; a != nil {
		return a, nil
	}
	if err := l.ctx.Err(); err != nil {
		return nil, err
	}
	a := &cachedResult{done: make(chan struct{})}
	l.results[key] = a
	l.running.Go(func() {
		defer close(a.done)
		select {
		case slots <- struct{}{}:
			a.text, a.ok, a.err = find(l.ctx)
			<-slots
		case <-l.ctx.Done():
			a.err = l.ctx.Err()
		}
		if a.err != nil {
			l.mu.Lock()
			delete(l.results, key)
			l.mu.Unlock()
		}
	})
	return a, nil
}
