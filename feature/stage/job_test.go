//go:build linux

package stage

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
	"remshell/launch/launchtest"
	"remshell/usererr"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A content is the content of a staged file: its bytes, and the hash that is announced.
type content struct {
	io.ReaderAt
	sum string
	err error
}

// Checksum implements Content.
func (c content) Checksum() (string, error) { return c.sum, c.err }

// addFile adds a staged file to a job.
func addFile(r *launchtest.Run, name string, text []byte) *content {
	sum := sha256.Sum256(text)
	c := &content{ReaderAt: bytes.NewReader(text), sum: hex.EncodeToString(sum[:])}
	r.Req.StagedFiles = append(r.Req.StagedFiles, job.StagedFile{Name: name, Path: "/no/where/" + name, Size: int64(len(text)), Mode: 0o700})
	if r.Settings == nil {
		r.Settings = []wire.Setting{new(Contents)}
	}
	contents := r.Settings[0].(*Contents)
	contents.Files = append(contents.Files, c)
	return c
}

// Staged files of all sizes arrive unchanged on all nodes, compressed or not, with few nodes and
// with many. A program among them is started.
func TestStagedFilesArrive(t *testing.T) {
	for _, nodes := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		r := launchtest.NewRun(len(nodes), "", nodes...)
		noise := make([]byte, 3*chunkSize+1)
		rand.Read(noise)
		want := ""
		for name, text := range map[string][]byte{
			"noise": noise, "empty": nil, "one": []byte("x"), "piece": noise[:chunkSize],
			"window": bytes.Repeat([]byte("words and words "), window/8),
		} {
			b := addFile(r, name, text)
			want += b.sum + "  " + name + "\n"
		}
		addFile(r, "program", []byte("#!/bin/sh\ncd $MPIEXEC_STAGE_DIR && sha256sum -c --quiet sums && echo as they are\n"))
		addFile(r, "sums", []byte(want))
		r.Req.Apps[0].Argv, r.Req.Apps[0].StagedFile = []string{"./program"}, "program"
		result, err := r.Do(t)
		if err != nil || result.Code != 0 || r.Err.String() != "" || r.Out.String() != strings.Repeat("as they are\n", len(nodes)) {
			t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
		}
	}
}

// A staged file that cannot be read, or that changes, keeps the job from starting.
func TestStagedFilesThatChange(t *testing.T) {
	for what, spoil := range map[string]func(*content){
		"the file became shorter while mpiexec sent it": func(b *content) { b.ReaderAt = strings.NewReader("sh") },
		"the file changed while mpiexec sent it":        func(b *content) { b.ReaderAt = strings.NewReader("other") },
		"cannot be read":                                func(b *content) { b.err = errors.New("cannot be read") },
	} {
		r := launchtest.NewRun(2, "echo it runs", "a", "b")
		spoil(addFile(r, "file", []byte("known")))
		result, err := r.Do(t)
		var start *usererr.Error
		if !errors.As(err, &start) || start.Code != job.ExitInternal || !strings.Contains(err.Error(), what) || r.Out.String() != "" {
			t.Errorf("%s: code %d, %v, stdout %q", what, result.Code, err, r.Out.String())
		}
	}
}

// mpiexec and a helper send all messages of the feature.
func TestMessagesAreSent(t *testing.T) {
	launchtest.RecordJobs(t, "StageFiles MissingFiles FileChunk FileCredit StageResult", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "true", "a")
		addFile(r, "large", bytes.Repeat([]byte("words and words "), window/8))
		s.MustExit(r, 0)
	})
}

// The steps of a start have the staging, of mpiexec and of each node.
func TestStepsOfStaging(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(2, "", "a", "b"))
	addFile(r, "one", []byte("x"))
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v, stderr %q", result.Code, err, r.Err.String())
	}
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": stage", "a: stage", "b: stage")
}
