//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// scratchFiles lists what --scratch has on a host: folders and their records.
func (b *testCluster) scratchFiles(host string) (files []string) {
	for _, pattern := range []string{"tmp/remshell-0.*", "var/tmp/remshell-0.*", "tmp/remshell-0/scratch/*", "var/tmp/remshell-0/scratch/*"} {
		found, _ := filepath.Glob(filepath.Join(b.Root(host), pattern))
		files = append(files, found...)
	}
	return files
}

// The folders of --scratch are removed on each host, also below a directory that only the option names, and whichever of
// mpiexec and the helpers is killed.
func TestScratchGoesWithTheJob(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	awaitNone := func(what string) {
		t.Helper()
		for _, h := range append(b.hosts(), testbed.Head) {
			var left []string
			if !poll(goneTimeout, func() bool { left = b.scratchFiles(h); return len(left) == 0 }) {
				t.Errorf("%s: %s: left behind: %q", what, h, left)
			}
		}
	}
	const script = `test "$MPIEXEC_SCRATCH" = "$TMPDIR" && mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/$MPIEXEC_RANK && case $TMPDIR in /var/tmp/remshell-0.*) echo ready;; esac`
	r := b.runMpiexec(t, "-hosts", "n1:1,n2:1", "-n", "2", "--scratch=/var/tmp", "sh", "-c", script)
	if r.code != 0 || r.err != "" || r.out != "ready\nready\n" {
		t.Fatalf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	awaitNone("end")
	for _, hosts := range []string{"n1:1,n2:1", "localhost:2"} {
		for what, kill := range map[string]func(*runningJob){
			"mpiexec": func(r *runningJob) { r.cmd.Process.Kill() },
			"SIGTERM": func(r *runningJob) { r.cmd.Process.Signal(syscall.SIGTERM) },
			"helpers": func(r *runningJob) {
				for _, pid := range b.ownProcesses(t) {
					if isHelperArgs(strings.Split(cmdline(pid), "\x00")) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				if hosts == "localhost:2" { // its helper is in mpiexec
					r.cmd.Process.Kill()
				}
			},
			"both": func(r *runningJob) {
				for _, pid := range b.ownProcesses(t) {
					if args := strings.Split(cmdline(pid), "\x00"); !isReaperArgs(args) && !secondArgIs("--helper-guard")(args) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			},
		} {
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", hosts, "-n", "2", "--scratch=/var/tmp", "sh", "-c", script + "; exec sleep 1000"}})
			r.awaitOut(t, "ready", 2)
			kill(r)
			r.end()
			awaitNone(hosts + ", " + what)
		}
	}
}
