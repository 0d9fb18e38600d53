package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"remshell/batch"
	"remshell/sshx"
)

// A HelperBinary is the program that runs as the helper on a node. It is the binary of this process, or a binary of the
// same release for another architecture.
type HelperBinary struct {
	Path  string // path, with links resolved, under which other hosts may see the file; empty if it is not shared
	Build string // identity: letters, digits, _ and - only
	Size  int64
	Open  func() (io.ReadCloser, error)

	buildLine    int      // line of the file that contains Build, from 1; 0 if it is not within its head
	fileIdentity string   // inode number, size and time of the file at Path, as ls -i --full-time prints them in UTC; "none" if they identify nothing
	nodeDirs     []string // directories of a node that all users can write to; nil means /tmp and /dev/shm
	goos, goarch string   // operating system and architecture of the nodes; empty means those of this machine
	nodePath     string   // path on the node; if empty, it is searched for there, or sent
	delivery     string   // "always" send it, "never" send it, or else send it if the node has none
	stepNames    *stepVariables
	dialBack     *invitedHelper   // how the helper connects to mpiexec; nil if it does not, or is started by a step
	attach       *batchAttachment // how sessions on nodes join a batch job; nil if they do not
	silent       bool             // the script prints nothing (noinput.go)
	silentArgs   string           // the helper's arguments for connecting to mpiexec, with its input; empty unless silent
	tracer       StepTracer       // traces the steps of the connection
	loginShell   string           // the user's login shell on this machine; empty if unknown
}

// A StepTracer is called when a step of connecting to a host begins, from any goroutine. The StepTracer returns
// a function that is called at the step's end, with nil or the error. The steps of one host do not overlap. The
// steps of sshx.StepTracer come first. The next are session, shell (which ends when /bin/sh has replied),
// delivery, and helper (which ends with the helper's first byte). A nil StepTracer traces nothing.
type StepTracer func(host, step string) (end func(error))

func (w StepTracer) begin(host, step string) (end func(error)) {
	if w == nil {
		return func(error) {}
	}
	return w(host, step)
}

// forHost returns a sshx.StepTracer that traces the steps of connecting to one host.
func (w StepTracer) forHost(host string) sshx.StepTracer {
	if w == nil {
		return nil
	}
	return func(step string) func(error) { return w(host, step) }
}

// WithTracer returns a copy of s that calls w for each step of connecting to a host.
func (s HelperBinary) WithTracer(w StepTracer) HelperBinary {
	s.tracer = w
	return s
}

// WithLoginShell returns a copy of s that stores the user's login shell on this machine. Messages assume that
// the login shell on the hosts is the same.
func (s HelperBinary) WithLoginShell(shell string) HelperBinary {
	s.loginShell = shell
	return s
}

// stepVariables holds the names of environment variables that a batch system sets for each task of a step.
type stepVariables struct {
	host           string // variable with the task's host, as the batch system spells it
	starterAddress string // variable with the address of the starter's machine; it may be unset
}

// ForStep returns a copy of s for the hosts of a batch step. In a step the binary is never sent, so a host without the
// binary reports an error. host and starterAddress are names of environment variables (stepVariables).
func (s HelperBinary) ForStep(host, starterAddress string) HelperBinary {
	s.delivery, s.stepNames = "never", &stepVariables{host, starterAddress}
	return s
}

// An invitedHelper is a helper that should connect to mpiexec, together with the program that starts the helper.
type invitedHelper struct {
	*dialBack
	starter *localCommand
}

// WithDelivery returns a copy of s with the given mode for sending the binary to nodes: always, never, or
// auto. With auto, the binary is sent to nodes that do not have it.
func (s HelperBinary) WithDelivery(mode string) HelperBinary {
	s.delivery = mode
	return s
}

// A batchAttachment makes the shell on each node add its session to a job of a batch system before the shell starts
// the helper.
type batchAttachment struct {
	*batch.Attach
	job    string
	failed func(host, reason string) // called for each node where that failed
}

// Attaching returns a copy of s that adds the session on each node to a batch job before the helper starts. If adding
// the session fails on a node, failed is called, from any goroutine. reason is "missing", "failed", or another reason
// that the node reports.
func (s HelperBinary) Attaching(attachment *batch.Attach, job string, failed func(host, reason string)) HelperBinary {
	s.attach = &batchAttachment{attachment, job, failed}
	return s
}

// fill returns the placeholders of the delivery script that concern the batch job, each followed by its value.
func (a *batchAttachment) fill() []string {
	if a == nil {
		return []string{"@JOIN@", ":", "@ATTACH@", ":", "@JOBFLAG@", "", "@JOB@", "''", "@PROCESSFLAG@", "", "@VARIABLE@", "_rs_x"}
	}
	return []string{"@JOIN@", "_rs_join", "@ATTACH@", quote(a.Program), "@JOBFLAG@", quote(a.JobFlag), "@JOB@", quote(a.job),
		"@PROCESSFLAG@", quote(a.ProcessFlag), "@VARIABLE@", a.Variable}
}

// AtPath returns a copy of s that uses the mpiexec at path on the node. path is empty if the user has not given one.
func (s HelperBinary) AtPath(path string) HelperBinary {
	s.nodePath = path
	return s
}

// CheckSameFile returns an error if a file on this machine is not from the same build as the binary.
func (s HelperBinary) CheckSameFile(file string) error {
	other, err := readBinary(file, file)
	switch {
	case err != nil:
		return innermost(err)
	case other.Build != s.Build:
		return errors.New(otherBuild)
	}
	return nil
}

// otherBuild is the text of the error that CheckSameFile returns. The delivery script contains the same text.
const otherBuild = "it is not the same build as this mpiexec"

// headSize is the number of bytes at the start of a file that are searched for the build ID. Go's linker writes the
// build ID right after the ELF header, within the first 4096 bytes (cmd/link/internal/ld, ELFRESERVE).
const headSize = 4096

// RunningBinary returns the program of this process. The program's identity is the last part of Go's build ID,
// which is a hash of the contents. If the program has no build ID, RunningBinary computes a hash of the file, which
// takes some milliseconds. Nodes do not look for such a program on a shared path.
func RunningBinary() (HelperBinary, error) {
	path, err := os.Executable()
	if err != nil {
		return HelperBinary{}, fmt.Errorf("cannot find the executable of this mpiexec: %w", err)
	}
	running := path
	if runtime.GOOS == "linux" {
		running = "/proc/self/exe" // stays valid when the file at path is replaced
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return readBinary(path, running)
}

// readBinary returns the program in file, with its identity. path is the name under which other hosts may see the
// file.
func readBinary(path, file string) (HelperBinary, error) {
	s := HelperBinary{Path: path, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	f, err := os.Open(file)
	if err != nil {
		return HelperBinary{}, fmt.Errorf("cannot read the executable of this mpiexec: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return HelperBinary{}, fmt.Errorf("cannot read the executable of this mpiexec: %w", err)
	}
	s.Size, s.fileIdentity = info.Size(), fileIdentity(info)
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return HelperBinary{}, fmt.Errorf("cannot read the executable of this mpiexec: %w", err)
	}
	if s.Build = buildID(head[:n]); s.Build != "" {
		before, _, _ := bytes.Cut(head, []byte(s.Build))
		s.buildLine = 1 + bytes.Count(before, []byte("\n"))
		return s, nil
	}
	sum := sha256.New()
	sum.Write(head[:n])
	if _, err := io.Copy(sum, f); err != nil {
		return HelperBinary{}, fmt.Errorf("cannot read the executable of this mpiexec: %w", err)
	}
	s.Build = hex.EncodeToString(sum.Sum(nil))[:40]
	return s, nil
}

// fileIdentity returns the inode number, the size and the modification time (in nanoseconds) of a file. Two
// different files, even on different hosts, differ in at least one of the three. If the time has no fraction of
// a second, fileIdentity returns "none". Such a time may have been set for all files of a disk image, and two
// images may use the same inode numbers.
func fileIdentity(info os.FileInfo) string {
	about, ok := info.Sys().(*syscall.Stat_t)
	if when := info.ModTime().UTC(); ok && when.Nanosecond() != 0 {
		return fmt.Sprintf("%d %d %s", about.Ino, info.Size(), when.Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return "none"
}

// IsBuildID reports whether word has the form of a build ID, which identifies a program.
func IsBuildID(word string) bool { return isPlainID([]byte(word)) }

// buildID searches the first bytes of a program for the ELF note that Go's linker has written (name Go, type
// 4). It returns the last of the four parts of the build ID, or "".
func buildID(head []byte) string {
	const name = "Go\x00\x00"
	for at := 0; ; at++ {
		i := bytes.Index(head[at:], []byte(name))
		if i < 0 {
			return ""
		}
		at += i
		if at < 12 || binary.NativeEndian.Uint32(head[at-12:]) != 4 || binary.NativeEndian.Uint32(head[at-4:]) != 4 {
			continue
		}
		text := head[at+len(name):]
		size := binary.NativeEndian.Uint32(head[at-8:])
		if int64(size) > int64(len(text)) {
			return ""
		}
		id := text[:size]
		id = id[bytes.LastIndexByte(id, '/')+1:]
		if !isPlainID(id) {
			return ""
		}
		return string(id)
	}
}

// isPlainID reports whether id consists of at least 16 bytes, all of which are safe in a file name, a shell pattern and
// an argument.
func isPlainID(id []byte) bool {
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) >= 16
}
