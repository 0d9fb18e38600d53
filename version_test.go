package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Sources without git and the commit with the release's tag have the number in VERSION. All other builds add their commit.
func TestVersionOfABuild(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	commit := func() {
		run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
	}
	for name, text := range map[string]string{"VERSION": "1.2.3\n", "tools/version.sh": readText(t, "tools/version.sh")} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"no git", func() {}, `^1\.2\.3$`},
		{"git without a tag", func() { run("git", "init", "-q"); run("git", "add", "."); commit() }, `^1\.2\.3\+[0-9a-f]{8}$`},
		{"another tag", func() { run("git", "tag", "v1.2.2") }, `^1\.2\.3\+[0-9a-f]{8}$`},
		{"the release", func() { run("git", "tag", "v1.2.3") }, `^1\.2\.3$`},
		{"a later commit", commit, `^1\.2\.3\+[0-9a-f]{8}$`},
		{"a changed file", func() { os.WriteFile(filepath.Join(dir, "VERSION"), []byte("1.2.4\n"), 0o644) }, `^1\.2\.4\+[0-9a-f]{8}-dirty$`},
	} {
		step.do()
		if got := run("tools/version.sh"); !regexp.MustCompile(step.want).MatchString(got) {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// CHANGELOG has a section with a date for the release that VERSION names, and it is the newest.
func TestChangelogOfTheRelease(t *testing.T) {
	released := regexp.MustCompile(`(?m)^## (\S+) \(\d{4}-\d{2}-\d{2}\)$`).FindStringSubmatch(readText(t, "CHANGELOG.md"))
	if number := strings.TrimSpace(readText(t, "VERSION")); released == nil || released[1] != number {
		t.Errorf("VERSION is %s, and the newest section of CHANGELOG.md %q", number, released)
	}
}
