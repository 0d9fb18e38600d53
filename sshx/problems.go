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

// A FileProblem says why one of the user's ssh files cannot be used, and what the user can do.
type FileProblem struct{ Text, Remedy string }

// FindFileProblems checks the user's files that connections need. ssh and this package ignore files that they cannot
// use. Without this check, a host would be unknown or refuse the login, and no message would explain why.
func FindFileProblems(ctx context.Context, localUser User) (problems []FileProblem) {
	add := func(text, remedy string) { problems = append(problems, FileProblem{text, remedy}) }
	dir := filepath.Join(localUser.Home, ".ssh")
	for _, file := range []struct{ name, then string }{{"config", "it is treated as empty"}, {"known_hosts", "its host keys are not used"}} {
		path := filepath.Join(dir, file.name)
		if err := checkReadable(path); err != nil {
			add(fmt.Sprintf("%s cannot be read (%v), so %s", path, innermost(err), file.then), "see its owner and mode: ls -l "+path)
		}
	}
	for _, path := range defaultIdentities(localUser.Home) {
		if _, err := readPrivate(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			add(fmt.Sprintf("the key %s is not used: %v", path, innermost(err)), "run: chmod 600 "+path)
		}
	}
	socket := ""
	if localUser.Getenv != nil {
		socket = localUser.Getenv("SSH_AUTH_SOCK")
	}
	if socket != "" {
		if err := checkAgent(ctx, socket); err != nil {
			add(fmt.Sprintf("no agent answers at %s (SSH_AUTH_SOCK): %v", socket, innermost(err)), `start an agent: eval "$(ssh-agent)" && ssh-add; or run: unset SSH_AUTH_SOCK`)
		}
	}
	return problems
}

// checkReadable reads the start of a file and returns any error. If the file does not exist, it returns nil.
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

// checkAgent connects to an ssh-agent and returns the error, if any. It does not ask for keys, because an
// agent on another host may be slow.
func checkAgent(ctx context.Context, socket string) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return conn.Close()
}
