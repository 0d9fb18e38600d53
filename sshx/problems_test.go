package sshx

import (
	"net"
	"os"
	"slices"
	"testing"
)

// Problems that ssh ignores silently are reported, with a remedy.
func TestFileProblems(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(dir+"/.ssh", 0o700))
	env := map[string]string{}
	me := User{Home: dir, Getenv: func(name string) string { return env[name] }}
	problems := func() (texts []string) {
		for _, f := range FindFileProblems(t.Context(), me) {
			texts = append(texts, f.Text+"; "+f.Remedy)
		}
		return texts
	}
	if got := problems(); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	check(t, os.WriteFile(dir+"/.ssh/id_ed25519", []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n"), 0o600))
	check(t, os.WriteFile(dir+"/.ssh/config", []byte("Host *\n"), 0o600))
	check(t, os.WriteFile(dir+"/.ssh/known_hosts", nil, 0o600))
	agent, err := net.Listen("unix", dir+"/agent")
	check(t, err)
	env["SSH_AUTH_SOCK"] = dir + "/agent"
	if got := problems(); got != nil {
		t.Errorf("all is well: %q", got)
	}
	check(t, agent.Close())
	check(t, os.Chmod(dir+"/.ssh/id_ed25519", 0o644))
	check(t, os.Remove(dir+"/.ssh/known_hosts"))
	check(t, os.Mkdir(dir+"/.ssh/known_hosts", 0o700))
	want := []string{
		dir + "/.ssh/known_hosts cannot be read (is a directory), so its host keys are not used; see its owner and mode: ls -l " + dir + "/.ssh/known_hosts",
		"the key " + dir + "/.ssh/id_ed25519 is not used: other users can access the file (mode 0644); run: chmod 600 " + dir + "/.ssh/id_ed25519",
		"no agent answers at " + dir + `/agent (SSH_AUTH_SOCK): no such file or directory; start an agent: eval "$(ssh-agent)" && ssh-add; or run: unset SSH_AUTH_SOCK`,
	}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
