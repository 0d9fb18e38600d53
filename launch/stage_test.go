//go:build linux

package launch_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A stagedContent is the content of a staged file in the test: its bytes, and the hash that is announced.
type stagedContent struct {
	io.ReaderAt
	sum string
	err error
}

func (b stagedContent) Checksum() (string, error) { return b.sum, b.err }

// addStagedFile adds a staged file to a job.
func (r *run) addStagedFile(name string, text []byte) *stagedContent {
	sum := sha256.Sum256(text)
	b := &stagedContent{ReaderAt: bytes.NewReader(text), sum: hex.EncodeToString(sum[:])}
	r.req.StagedFiles = append(r.req.StagedFiles, job.StagedFile{Name: name, Path: "/no/where/" + name, Size: int64(len(text)), Mode: 0o700})
	r.staged = append(r.staged, b)
	return b
}

// Staged files of all sizes arrive unchanged on all nodes, compressed or not, with few nodes and
// with many. A program among them is started.
func TestStagedFilesArrive(t *testing.T) {
	for _, nodes := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		r := newRun(len(nodes), "", nodes...)
		noise := make([]byte, 3*wire.FileChunkSize+1)
		rand.Read(noise)
		want := ""
		for name, text := range map[string][]byte{
			"noise": noise, "empty": nil, "one": []byte("x"), "piece": noise[:wire.FileChunkSize],
			"window": bytes.Repeat([]byte("words and words "), wire.StageWindow/8),
		} {
			b := r.addStagedFile(name, text)
			want += b.sum + "  " + name + "\n"
		}
		r.addStagedFile("program", []byte("#!/bin/sh\ncd $MPIEXEC_STAGE_DIR && sha256sum -c --quiet sums && echo as they are\n"))
		r.addStagedFile("sums", []byte(want))
		r.req.Apps[0].Argv, r.req.Apps[0].StagedFile = []string{"./program"}, "program"
		result, err := r.do(t)
		if err != nil || result.Code != 0 || r.err.String() != "" || r.out.String() != strings.Repeat("as they are\n", len(nodes)) {
			t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.out.String(), r.err.String())
		}
	}
}

// A staged file that cannot be read, or that changes, keeps the job from starting.
func TestStagedFilesThatChange(t *testing.T) {
	for what, spoil := range map[string]func(*stagedContent){
		"it became shorter while it was sent": func(b *stagedContent) { b.ReaderAt = strings.NewReader("sh") },
		"it changed while it was sent":        func(b *stagedContent) { b.ReaderAt = strings.NewReader("other") },
		"cannot be read":                      func(b *stagedContent) { b.err = errors.New("cannot be read") },
	} {
		r := newRun(2, "echo it runs", "a", "b")
		spoil(r.addStagedFile("file", []byte("known")))
		result, err := r.do(t)
		var start *usererr.Error
		if !errors.As(err, &start) || start.Code != job.ExitInternal || !strings.Contains(err.Error(), what) || r.out.String() != "" {
			t.Errorf("%s: code %d, %v, stdout %q", what, result.Code, err, r.out.String())
		}
	}
}
