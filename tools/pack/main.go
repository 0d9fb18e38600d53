/*
Pack builds the release files: an archive for each system, and .deb and .rpm packages for Linux.

	go run -C tools/pack . -version 1.0 -epoch 1700000000 -out dist

	go build, per target --> files of each --> tar.gz  --> dist/*.tar.gz
	mpiexec --man ...    -'                '-> nfpm    --> dist/*.deb, *.rpm
	                                                       dist/SHA256SUMS

Pack is a separate Go module, so that the modules that nfpm needs are not modules of mpiexec. It builds the
sources two directories above its own.

Builds are reproducible: the same sources, version, epoch and version of Go give the same bytes on any machine. Names
are sorted, each file is owned by root and has the time of the epoch, and programs contain no path of this machine. Each
archive contains mpiexec for its own system and, in libexec, for Linux nodes of other architectures (package transport).
*/
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A target is an operating system and architecture for which mpiexec is built.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

// targets lists all targets. Only Linux machines can be nodes of a job.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "riscv64"}, {"darwin", "arm64"}}

// root is the directory of mpiexec's sources, relative to the directory of this module.
const root = "../.."

func main() {
	version := flag.String("version", "", "version of the program, as tools/version.sh prints it")
	epoch := flag.Int64("epoch", 0, "time of all files, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	out := flag.String("out", "dist", "folder to write to, from the root of the sources")
	only := flag.String("only", "", "one target alone, such as linux-amd64; its archive has no programs for others")
	flag.Parse()
	if *version == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	wanted := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return *only != "" && t.String() != *only })
	if len(wanted) == 0 {
		fmt.Fprintf(os.Stderr, "pack: -only %s: there are %v\n", *only, targets)
		os.Exit(2)
	}
	if !filepath.IsAbs(*out) {
		*out = filepath.Join(root, *out)
	}
	if err := run(release{*version, time.Unix(*epoch, 0).UTC()}, wanted, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// A release is the version to pack, and the modification time of all its files.
type release struct {
	version string
	at      time.Time
}

// run builds all files of the release for the given targets and writes them to the directory out.
func run(r release, targets []target, out string) error {
	work, err := os.MkdirTemp("", "pack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs := make(map[target][]byte)
	for _, t := range targets {
		if programs[t], err = r.build(t, filepath.Join(work, t.String())); err != nil {
			return err
		}
	}
	generated, err := r.generate(filepath.Join(work, "here"))
	if err != nil {
		return err
	}
	texts, err := documents(root)
	if err != nil {
		return err
	}
	if texts[noticesFile], err = notices(filepath.Join(work, "here")); err != nil {
		return err
	}
	made := make(map[string][]byte)
	for _, t := range targets {
		top := fmt.Sprintf("remshell-%s-%s", r.version, t)
		made[top+".tar.gz"] = tarball(below(top, portable(t, programs, texts, generated)), r.at)
		if t.os == "linux" {
			for _, kind := range []string{"deb", "rpm"} {
				p := linux{kind: kind, version: version(r), arch: t.arch, at: r.at, files: installed(kind, t, programs, texts, generated)}
				if made[p.name()], err = p.bytes(); err != nil {
					return err
				}
			}
		}
	}
	return write(out, made)
}

// build compiles mpiexec for a target, writes it to file and returns its bytes.
func (r release) build(t target, file string) ([]byte, error) {
	environ := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	ldflags := exec.Command("tools/ldflags.sh", r.version)
	ldflags.Env, ldflags.Dir, ldflags.Stderr = environ, root, os.Stderr
	flags, err := ldflags.Output()
	if err != nil {
		return nil, fmt.Errorf("tools/ldflags.sh for %s: %w", t, err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+strings.TrimSpace(string(flags)), "-o", file, ".")
	cmd.Env, cmd.Dir, cmd.Stderr = environ, root, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build for %s: %w", t, err)
	}
	return os.ReadFile(file)
}

// A text is a text file that mpiexec generates from its option table.
type text struct {
	option, value string // of mpiexec, to print the text
	name          string // path relative to share/
}

var generators = []text{
	{"--man", "", "man/man1/mpiexec.1"},
	{"--mpijob", "--man", "man/man1/mpijob.1"},
	{"--aprun", "--man", "man/man1/aprun.1"},
	{"--completion", "bash", "bash-completion/completions/mpiexec"},
	{"--completion", "zsh", "zsh/site-functions/_mpiexec"},
	{"--completion", "fish", "fish/vendor_completions.d/mpiexec.fish"},
}

// generate builds mpiexec for this machine, writes it to the file program, and runs it to print the manual pages and
// completions. If this version cannot print one of these files, generate leaves the file out and prints a warning.
func (r release) generate(program string) (map[string][]byte, error) {
	if _, err := r.build(target{runtime.GOOS, runtime.GOARCH}, program); err != nil {
		return nil, err
	}
	made := make(map[string][]byte)
	for _, g := range generators {
		cmd := exec.Command(program, strings.Fields(g.option+" "+g.value)...)
		cmd.Env = append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", r.at.Unix()))
		out, err := cmd.Output()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			fmt.Fprintf(os.Stderr, "pack: without %s: %s", g.name, exit.Stderr)
			continue
		case err != nil:
			return nil, err
		}
		made[g.name] = out
	}
	return made, nil
}

// write writes the files and a file SHA256SUMS to a directory, and prints the checksums.
func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range names(files) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
