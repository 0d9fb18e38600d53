//go:build linux

package stage

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/test/actors"
	"remshell/wire"
)

// A start does not wait for a node that credits only single bytes, or none. It waits for one that receives
// at 10 KB/s.
func TestHowLongFilesAreStaged(t *testing.T) {
	const size = 40 * chunkSize
	for _, test := range []struct {
		name  string
		bytes int           // bytes credited at once
		every time.Duration // interval between credits
		want  string        // text of the error; empty: staging succeeds
		most  time.Duration // limit for the whole staging
	}{
		{"one byte each second", 1, time.Second, "b: the files of --stage were not copied within 1m0s", 5 * time.Minute},
		{"no byte each second", 0, time.Second, "b: the files of --stage were not copied within 1m0s", 5 * time.Minute},
		{"12 KB each second", 12000, time.Second, "", 20 * time.Minute},
		{"all, and then nothing", chunkSize, time.Millisecond, "b: the files of --stage were not copied within 1m0s", 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := actors.New(nil)
			s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
				switch m := m.(type) {
				case *StageFiles:
					c.Send(&MissingFiles{Files: []int{0}})
					if node == "b" {
						go dribble(t.Context(), c, test.bytes, test.every, size, test.want == "")
					}
				case *FileChunk:
					if node == "a" {
						c.Send(&FileCredit{Bytes: len(m.Bytes)})
					}
					if node == "a" && s.CountReceived("a", "FileChunk") == size/chunkSize {
						c.Send(&StageResult{})
					}
				default:
					return false
				}
				return true
			}
			req := job.Request{Job: "test", Apps: []job.App{{N: 2, Argv: []string{"prog"}}}, Queue: job.Queue{Required: true},
				Nodes:       []job.NodeDef{{ID: 0, Name: "a", Slots: 1}, {ID: 1, Name: "b", Slots: 1}},
				StagedFiles: []job.StagedFile{{Name: "file", Path: "/file", Size: size, Mode: 0o700}}}
			inbox := node.NewInbox()
			ctx, done := context.WithTimeout(t.Context(), time.Hour)
			defer done()
			began := time.Now()
			r, err := reserve.Reserve(ctx, req, reserve.Env{Connector: node.Connector{Dialer: s, GreetTimeout: time.Minute},
				RankOptions: reserve.RankOptions{Window: func(int) int { return 1 }, Settings: []wire.Setting{&Contents{[]Content{&content{ReaderAt: bytes.NewReader(make([]byte, size)), sum: "0"}}}}}, Report: func(string) {},
				Inbox: inbox, Listener: node.Listener{Inbox: inbox}})
			if took := time.Since(began); took > test.most || test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("%s: %v after %v, want %q", test.name, err, took, test.want)
			}
			for _, n := range r.Nodes {
				n.Abandon()
			}
			done()
			synctest.Wait()
		})
	}
}

// dribble credits so many bytes at a time until size bytes are credited. At the end it reports success if
// staged is set.
func dribble(ctx context.Context, c *wire.Conn, bytes int, every time.Duration, size int, staged bool) {
	for left := size; left > 0; left -= bytes {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		if c.Send(&FileCredit{Bytes: min(bytes, left)}) != nil {
			return
		}
	}
	if staged {
		c.Send(&StageResult{})
	}
}
