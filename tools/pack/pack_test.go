package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// sample returns the contents of a small release.
func sample() (programs map[target][]byte, texts, generated map[string][]byte) {
	programs = make(map[target][]byte)
	for _, t := range targets {
		programs[t] = []byte("program for " + t.String())
	}
	texts = map[string][]byte{"README.md": []byte("read me\n"), "doc/adr/0001-x.md": []byte("decided\n")}
	generated = map[string][]byte{"man/man1/mpiexec.1": []byte(".TH\n"), "man/man1/mpijob.1": []byte(".TH\n"), "bash-completion/completions/mpiexec": []byte("complete\n")}
	return programs, texts, generated
}

// list returns a line "name mode link" for each member of a .tar.gz.
func list(t *testing.T, tarball []byte) (members []string) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) || h.Uid != 0 || h.Gid != 0 || h.Uname != "root" {
			t.Errorf("%s: of %s (%d), %v", h.Name, h.Uname, h.Uid, h.ModTime)
		}
		members = append(members, strings.TrimSpace(fmt.Sprintf("%s %o %s", h.Name, h.Mode, h.Linkname)))
	}
}

func TestPortable(t *testing.T) {
	programs, texts, generated := sample()
	got := list(t, tarball(below("r", portable(target{"linux", "arm64"}, programs, texts, generated)), at))
	want := []string{
		"r/ 755", "r/bin/ 755", "r/bin/aprun 777 mpiexec", "r/bin/mpiexec 755", "r/bin/mpijob 777 mpiexec", "r/bin/mpirun 777 mpiexec",
		"r/libexec/ 755", "r/libexec/remshell/ 755", "r/libexec/remshell/mpiexec-linux-amd64 755", "r/libexec/remshell/mpiexec-linux-riscv64 755",
		"r/share/ 755", "r/share/bash-completion/ 755", "r/share/bash-completion/completions/ 755", "r/share/bash-completion/completions/aprun 777 mpiexec",
		"r/share/bash-completion/completions/mpiexec 644", "r/share/bash-completion/completions/mpijob 777 mpiexec",
		"r/share/doc/ 755", "r/share/doc/remshell/ 755", "r/share/doc/remshell/README.md 644", "r/share/doc/remshell/adr/ 755", "r/share/doc/remshell/adr/0001-x.md 644",
		"r/share/man/ 755", "r/share/man/man1/ 755", "r/share/man/man1/mpiexec.1 644", "r/share/man/man1/mpijob.1 644",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mac := portable(target{"darwin", "arm64"}, programs, texts, generated)
	if _, exists := mac["libexec/remshell/mpiexec-linux-arm64"]; !exists {
		t.Errorf("a launcher on darwin has nothing for Linux: %v", names(mac))
	}
}

// Go's maps are iterated in random order; the files in a package must not be.
func TestPackagesAreReproducible(t *testing.T) {
	for _, kind := range []string{"deb", "rpm"} {
		make := func() []byte {
			programs, texts, generated := sample()
			p := linux{kind: kind, version: "1", arch: "amd64", at: at, files: installed(kind, target{"linux", "amd64"}, programs, texts, generated)}
			return written(t, p)
		}
		first := make()
		for range 20 {
			if !bytes.Equal(first, make()) {
				t.Fatalf("two packages (%s) of the same files differ", kind)
			}
		}
	}
}

// written returns the bytes of a package.
func written(t *testing.T, p linux) []byte {
	t.Helper()
	data, err := p.bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// If dpkg-deb is installed, it reads the package.
func TestDebian(t *testing.T) {
	programs, texts, generated := sample()
	p := linux{kind: "deb", version: "0~1.abc", arch: "amd64", at: at, files: installed("deb", target{"linux", "amd64"}, programs, texts, generated)}
	script := p.postinst()
	for _, want := range []string{
		"--install /usr/bin/mpirun mpirun /usr/bin/mpirun.remshell 30",
		"--slave /usr/bin/mpiexec mpiexec /usr/bin/mpiexec.remshell",
		"--slave /usr/share/man/man1/mpiexec.1.gz mpiexec.1.gz /usr/share/man/man1/mpiexec.remshell.1.gz",
		"--slave /usr/share/bash-completion/completions/mpiexec mpiexec.bash /usr/share/remshell/bash-completion.completions.mpiexec",
		"--slave /usr/share/bash-completion/completions/mpirun mpirun.bash /usr/share/remshell/bash-completion.completions.mpiexec",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("no %q in\n%s", want, script)
		}
	}
	if strings.Contains(script, "zsh") {
		t.Errorf("a slave for a file that is not there:\n%s", script)
	}
	for _, s := range []string{script, p.prerm()} {
		if out, err := exec.Command("sh", "-n", "-c", s).CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, s)
		}
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "p.deb")
	if err := os.WriteFile(file, written(t, p), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("dpkg-deb", "--field", file, "Package", "Version", "Architecture").CombinedOutput()
	if want := "Package: remshell\nVersion: 0~1.abc\nArchitecture: amd64\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if out, err := exec.Command("dpkg-deb", "--extract", file, dir+"/root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The folders of the slaves must be there: update-alternatives makes none.
	if info, err := os.Stat(dir + "/root/usr/share/bash-completion/completions"); err != nil || !info.IsDir() {
		t.Errorf("no folder for the completion: %v", err)
	}
	// The front ends are not alternatives: their names are there as soon as the package is.
	for file, want := range map[string]string{
		"bin/mpirun.remshell": "program for linux-amd64", "bin/mpijob": "program for linux-amd64", "bin/aprun": "program for linux-amd64",
		"share/bash-completion/completions/mpijob": "complete\n", "share/bash-completion/completions/aprun": "complete\n",
	} {
		data, err := os.ReadFile(dir + "/root/usr/" + file)
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", file, data, err)
		}
	}
	if _, err := os.Stat(dir + "/root/usr/share/man/man1/mpijob.1.gz"); err != nil {
		t.Errorf("no manual page: %v", err)
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ version, want string }{
		{"v1.2", "1.2"},
		{"1.2.3", "1.2.3"},
		{"0.9.0+abcdef", "0.9.0+20231114221320.abcdef"},
		{"0.9.0+abcdef-dirty", "0.9.0+20231114221320.abcdef.dirty"},
		{"abcdef-dirty", "0~20231114221320.abcdef.dirty"},
		{"unknown", "0~20231114221320.unknown"},
	} {
		if got := version(release{c.version, at}); got != c.want {
			t.Errorf("%s: %s, want %s", c.version, got, c.want)
		}
	}
}

// A release contains this project's documents.
func TestDocuments(t *testing.T) {
	texts, err := documents("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE", "doc/design.md", "doc/cluster.toml"} {
		if len(texts[name]) == 0 {
			t.Errorf("no %s", name)
		}
	}
}

// The notices contain the licenses of Go and of modules that the program contains.
func TestNotices(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mpiexec")
	if _, err := (release{"test", at}).build(target{runtime.GOOS, runtime.GOARCH}, program); err != nil {
		t.Fatal(err)
	}
	all, err := notices(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"==== Go go1.", "==== golang.org/x/crypto v", "==== github.com/kevinburke/ssh_config v", "==== github.com/alecthomas/kong v",
		"==== github.com/rs/zerolog v", "Copyright (c) 2017 Olivier Poitrey"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("no %q in the notices", want)
		}
	}
}
