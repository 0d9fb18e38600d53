//go:build linux

package launch_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/usererr"
	"remshell/wire"
)

// Staged files of all sizes arrive unchanged on all nodes, compressed or not, with few nodes and
// with many. A program among them is started.
func TestStagedFilesArrive(t *testing.T) {
	for _, nodes := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		r := launchtest.NewRun(len(nodes), "", nodes...)
		noise := make([]byte, 3*wire.FileChunkSize+1)
		rand.Read(noise)
		want := ""
		for name, text := range map[string][]byte{
			"noise": noise, "empty": nil, "one": []byte("x"), "piece": noise[:wire.FileChunkSize],
			"window": bytes.Repeat([]byte("words and words "), wire.StageWindow/8),
		} {
			b := r.AddStagedFile(name, text)
			want += b.Sum + "  " + name + "\n"
		}
		r.AddStagedFile("program", []byte("#!/bin/sh\ncd $MPIEXEC_STAGE_DIR && sha256sum -c --quiet sums && echo as they are\n"))
		r.AddStagedFile("sums", []byte(want))
		r.Req.Apps[0].Argv, r.Req.Apps[0].StagedFile = []string{"./program"}, "program"
		result, err := r.Do(t)
		if err != nil || result.Code != 0 || r.Err.String() != "" || r.Out.String() != strings.Repeat("as they are\n", len(nodes)) {
			t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
		}
	}
}

// A staged file that cannot be read, or that changes, keeps the job from starting.
func TestStagedFilesThatChange(t *testing.T) {
	for what, spoil := range map[string]func(*launchtest.StagedContent){
		"it became shorter while it was sent": func(b *launchtest.StagedContent) { b.ReaderAt = strings.NewReader("sh") },
		"it changed while it was sent":        func(b *launchtest.StagedContent) { b.ReaderAt = strings.NewReader("other") },
		"cannot be read":                      func(b *launchtest.StagedContent) { b.Err = errors.New("cannot be read") },
	} {
		r := launchtest.NewRun(2, "echo it runs", "a", "b")
		spoil(r.AddStagedFile("file", []byte("known")))
		result, err := r.Do(t)
		var start *usererr.Error
		if !errors.As(err, &start) || start.Code != job.ExitInternal || !strings.Contains(err.Error(), what) || r.Out.String() != "" {
			t.Errorf("%s: code %d, %v, stdout %q", what, result.Code, err, r.Out.String())
		}
	}
}
