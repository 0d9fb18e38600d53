package sshx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A FileProblem is what keeps a file of ssh's from being used, and what to do about it.
type FileProblem struct{ Text, Remedy string }

// FindFileProblems looks at the files of a user from which connections are made. What it finds, ssh and we pass over when we connect: a host is
// not known then, or refuses us, and nothing says why.
func FindFileProblems(ctx context.Context, me User) (flaws []FileProblem) {
	flaw := func(text, remedy string) { flaws = append(flaws, FileProblem{text, remedy}) }
	dir := filepath.Join(me.Home, ".ssh")
	for _, file := range []struct{ name, then string }{{"config", "it counts as empty"}, {"known_hosts", "no host of it is known"}} {
		path := filepath.Join(dir, file.name)
		if err := checkReadable(path); err != nil {
			flaw(fmt.Sprintf("%s cannot be read (%v), so %s", path, innermost(err), file.then), "see its owner and mode: ls -l "+path)
		}
	}
	for _, path := range defaultIdentities(me.Home) {
		if _, err := readPrivate(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			flaw(fmt.Sprintf("the key %s is not used: %v", path, innermost(err)), "run: chmod 600 "+path)
		}
	}
	socket := ""
	if me.Getenv != nil {
		socket = me.Getenv("SSH_AUTH_SOCK")
	}
	if socket != "" {
		if err := checkAgent(ctx, socket); err != nil {
			flaw(fmt.Sprintf("no agent answers at %s (SSH_AUTH_SOCK): %v", socket, innermost(err)), `start one: eval "$(ssh-agent)" && ssh-add; or: unset SSH_AUTH_SOCK`)
		}
	}
	return flaws
}

// checkReadable reads the beginning of a file, if it is there.
func checkReadable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// checkAgent connects to an agent. What it would say takes longer, if it is on another machine, and is of no interest.
func checkAgent(ctx context.Context, socket string) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return conn.Close()
}
