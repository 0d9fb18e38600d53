package transport

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A script that is an argument prints nothing. It gives the helper the token as its input, or ends with a code that says
// why it starts none (rule RM-38).
func TestSilentScript(t *testing.T) {
	const token = "remshell-invitation 2\ntoken it's $HOME `x` \\ \"\nend\n"
	eachShell(t, func(t *testing.T, n *node) {
		run := func(s HelperBinary, host string) (out, errs string, exit int) {
			t.Helper()
			cmd := exec.Command(n.shell[0], append(n.shell[1:], s.silentScript(host, token)...)...)
			cmd.Env = []string{"HOME=" + n.home, "PATH=" + os.Getenv("PATH")}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Run()
			return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
		}
		s := self(t)
		s.nodeDirs = []string{filepath.Join(n.home, "none")}
		other := s
		other.goos, other.goarch = "linux", "s390x"
		always := s
		always.delivery = "always"
		for name, test := range map[string]struct {
			self HelperBinary
			code string
		}{"no program": {s, "never"}, "none is sent": {always, "never"}, "path=": {s.AtPath("/none/mpiexec"), "told"}, "another machine": {other, "machine"}} {
			if out, errs, exit := run(test.self, "n1"); out != "" || errs != "" || exit != silentCodes[test.code] {
				t.Errorf("%s: %q, %q, exit %d, want %d", name, out, errs, exit, silentCodes[test.code])
			}
		}

		// In place of mpiexec, a script that reports what it gets.
		if err := os.MkdirAll(filepath.Dir(n.cache(s)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n.cache(s), []byte("#!/bin/sh\necho lost\nprintf '<%s>' \"$@\" >&2\ncat >&2\nexit 9\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		const host = "n1'; exit 1"
		out, errs, exit := run(s, host)
		if want := strings.Join([]string{"<--helper>", "<" + s.Build + ">", "<" + host + ">", "<>", token}, ""); out != "" || errs != want || exit != 9 {
			t.Errorf("%q, exit %d\n%s\nwant\n%s", out, exit, errs, want)
		}
	})
}
