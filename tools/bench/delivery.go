//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remshell/sshx"
	"remshell/tools/testbed"
)

// receivedFile is the name of the file to which scp and lowerBoundSend copy mpiexec in a host's home directory.
const receivedFile = "received"

// deliveryCases returns the case of a first start, for which mpiexec must be sent to each host. It is compared with one
// scp of mpiexec to each host, all running at the same time. For the lower bound, mpiexec's own SSH client sends
// mpiexec to the program cat on each host.
func (b *bench) deliveryCases() []testCase {
	hosts := strings.Split(hostNames(8), ",")
	// The exit code is that of the scp that failed, if any.
	const script = `file=$1; shift; for host; do scp -O -q "$file" "$host:` + receivedFile + `" & all="$all $!"; done; for one in $all; do wait $one || exit; done`
	return []testCase{{name: "first start, 8 hosts, beside scp", figures: wallTimeGoal(1.3), rounds: roundLimits{5, 15, 15 * time.Second}, fresh: hosts,
		ours:           b.ownCommand("--no-pin", "-hosts", hostNames(8), "-n", "8", "/bin/true"),
		theirs:         append([]string{"/bin/sh", "-c", script, "scp", b.ours}, hosts...),
		lowerBoundArgs: []string{b.self, lowerBoundArg, "send", b.ours, hostNames(8)}}}
}

// removeDelivered removes the copies of mpiexec from the hosts: the program cache and the file receivedFile.
func (b *bench) removeDelivered(hosts []string) error {
	var errs []error
	for _, name := range hosts {
		home := filepath.Join(b.cluster.Root(name), testbed.HomeDir())
		errs = append(errs, os.RemoveAll(filepath.Join(home, ".cache", "remshell")), os.RemoveAll(filepath.Join(home, receivedFile)))
	}
	return errors.Join(errs...)
}

// lowerBoundSend sends a file to all hosts at the same time. It uses one connection for each host.
func lowerBoundSend(file, hosts string) error {
	return onEach(hosts, func(client *sshx.Client) error {
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		defer in.Close()
		session, err := client.Start(context.Background(), "cat >"+receivedFile)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(session, struct{ io.Reader }{in}, make([]byte, 64<<10))
		return errors.Join(err, session.CloseWrite(), session.Wait())
	})
}
