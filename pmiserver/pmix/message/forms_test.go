package message_test

import (
	"reflect"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

// Open MPI's help text on MPI_Abort is decoded with its topic, in the form of version 4 and in that of 5
// and 6.
func TestLogOfOpenMPI(t *testing.T) {
	checked := 0
	for _, m := range pmixtest.Read(t).ClientMessages() {
		if m.Kind != "LOG" {
			continue
		}
		checked++
		request, err := message.Parse(m.Body())
		if err != nil {
			t.Fatal(err)
		}
		texts, all := request.(*message.Log).Texts()
		if len(texts) != 1 || !all {
			t.Fatalf("%+v, all: %v", texts, all)
		}
		got := texts[0]
		if got.Stdout || got.Topic != (message.Topic{File: "help-mpi-api.txt", Name: "mpi-abort"}) || !strings.Contains(got.Text, "MPI_ABORT was invoked on rank 1") {
			t.Errorf("%+v", got)
		}
	}
	if checked != 3 {
		t.Errorf("%d requests", checked)
	}
}

func TestLogTexts(t *testing.T) {
	help := func(parts ...[]byte) bfrops.Value { return bfrops.BlobOf(parts...) }
	word := func(word string) []byte { return bfrops.AppendText(nil, word) }
	yes, no := bfrops.AppendByte(nil, 1), bfrops.AppendByte(nil, 0)
	for _, test := range []struct {
		name  string
		key   string
		value bfrops.Value
		want  []message.LogText
		all   bool
	}{
		{"to stdout", "pmix.log.stdout", bfrops.TextOf("x"), []message.LogText{{Stdout: true, Text: "x"}}, true},
		{"too long", "pmix.log.stderr", bfrops.TextOf(strings.Repeat("x", 65_537)), []message.LogText{{Text: strings.Repeat("x", 65_536)}}, true},
		{"no text", "pmix.log.stderr", bfrops.Uint32Of(7), nil, false},
		{"by mail", "pmix.log.email", bfrops.TextOf("x"), nil, false},
		{"help of 4.x", "pmix.log.msg", help(word("f"), word("t"), yes, word("x")), []message.LogText{{Text: "x", Topic: message.Topic{File: "f", Name: "t"}}}, true},
		{"help of 4.x without text", "pmix.log.msg", help(word("f"), word("t"), no), []message.LogText{{Topic: message.Topic{File: "f", Name: "t"}}}, true},
		{"help of 4.x, cut off", "pmix.log.msg", help(word("f"), word("t"), yes), nil, false},
		{"help of 4.x, not in a blob", "pmix.log.msg", bfrops.TextOf("f"), nil, false},
	} {
		log := message.Log{Data: message.Options{{Key: test.key, Value: test.value}}}
		if got, all := log.Texts(); !reflect.DeepEqual(got, test.want) || all != test.all {
			t.Errorf("%s: %.200v, all: %v", test.name, got, all)
		}
	}
}

func TestCleanup(t *testing.T) {
	for _, test := range []struct {
		name  string
		key   string
		value bfrops.Value
		want  message.Cleanup
		all   bool
	}{
		{"files", "pmix.reg.cleanup", bfrops.TextOf("/a,/b"), message.Cleanup{Files: []string{"/a", "/b"}}, true},
		{"a directory", "pmix.reg.cleanupdir", bfrops.TextOf("/a"), message.Cleanup{Dirs: []string{"/a"}}, true},
		{"with what is in it", "pmix.clnup.recurse", bfrops.FlagOf(true), message.Cleanup{Recurse: true}, true},
		{"but for some", "pmix.clnup.ignore", bfrops.TextOf("/a,"), message.Cleanup{Ignore: []string{"/a"}}, true},
		{"but for itself", "pmix.clnup.leave", bfrops.FlagOf(true), message.Cleanup{KeepDirs: true}, true},
		{"no path", "pmix.reg.cleanup", bfrops.FlagOf(true), message.Cleanup{}, false},
		{"kill", "pmix.jctrl.kill", bfrops.FlagOf(true), message.Cleanup{}, false},
	} {
		control := message.JobControl{Directives: message.Options{{Key: test.key, Value: test.value}}}
		if got, all := control.Cleanup(); !reflect.DeepEqual(got, test.want) || all != test.all {
			t.Errorf("%s: %+v, all: %v", test.name, got, all)
		}
	}
}
