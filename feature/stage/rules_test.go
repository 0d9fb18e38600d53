package stage

import (
	"testing"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// announced lists two files.
var announced = &StageFiles{Files: []job.StagedFile{{Name: "a"}, {Name: "b"}}}

// A node may request announced files, once, and credit no more bytes than it was sent.
func TestWhatANodeMaySend(t *testing.T) {
	local := &StageFiles{Files: announced.Files, InPlace: true}
	for name, test := range map[string]struct {
		stage *StageFiles
		msgs  []wire.Message
		want  string // verdict on the last message
	}{
		"both":                  {announced, []wire.Message{&MissingFiles{Files: []int{0, 1}}}, "ok"},
		"none":                  {announced, []wire.Message{&MissingFiles{}, &StageResult{}}, "ok"},
		"one that is not":       {announced, []wire.Message{&MissingFiles{Files: []int{2}}}, "Files 2"},
		"negative":              {announced, []wire.Message{&MissingFiles{Files: []int{-1}}}, "Files -1"},
		"one twice":             {announced, []wire.Message{&MissingFiles{Files: []int{1, 1}}}, "Files 1"},
		"backwards":             {announced, []wire.Message{&MissingFiles{Files: []int{1, 0}}}, "Files 0"},
		"again":                 {announced, []wire.Message{&MissingFiles{}, &MissingFiles{}}, "unasked"},
		"on this machine":       {local, []wire.Message{&MissingFiles{}}, "unasked"},
		"none announced":        {nil, []wire.Message{&MissingFiles{}}, "unasked"},
		"all that was sent":     {announced, []wire.Message{&MissingFiles{}, &FileCredit{Bytes: 100}}, "ok"},
		"more":                  {announced, []wire.Message{&MissingFiles{}, &FileCredit{Bytes: 100}, &FileCredit{Bytes: 1}}, "Bytes 1"},
		"less than none":        {announced, []wire.Message{&MissingFiles{}, &FileCredit{Bytes: -1}}, "Bytes -1"},
		"credit for none":       {nil, []wire.Message{&FileCredit{}}, "unasked"},
		"done, unasked":         {announced, []wire.Message{&StageResult{}}, "unasked"},
		"done, on this machine": {local, []wire.Message{&StageResult{}}, "ok"},
		"done, twice":           {local, []wire.Message{&StageResult{}, &StageResult{}}, "unasked"},
		"credit after done":     {announced, []wire.Message{&MissingFiles{}, &StageResult{}, &FileCredit{}}, "unasked"},
	} {
		g, _ := nodetest.NewStage(t, "prepared")
		if test.stage != nil {
			g.NoteSent(test.stage)
			g.NoteSent(&FileChunk{Bytes: make([]byte, 100)})
		}
		got := ""
		for _, m := range test.msgs {
			got = nodetest.Judge(g, m)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	g, _ := nodetest.NewStage(t, "prepared")
	g.NoteSent(announced)
	if m, err := g.CheckMessage(&StageResult{Code: 0, Reason: "r"}); err != nil || m.(*StageResult).Code != job.ExitInternal {
		t.Errorf("%+v, %v", m, err)
	}
}

// A node answers after StageFiles only.
func TestAnswersByStage(t *testing.T) {
	for _, row := range []nodetest.StageVerdicts{
		//                                        connected greeted asked prepared running ending over left
		{Kind: "MissingFiles", Request: announced, Stages: "early ok ok ok ok ok ok dropped", Again: "unasked"},
		{Kind: "FileCredit", Request: announced, Stages: "early ok ok ok ok ok ok dropped", Again: "ok"},
		{Kind: "StageResult", Request: announced, Stages: "early ok ok ok ok ok ok dropped", Again: "unasked"},
	} {
		nodetest.CheckStages(t, row)
	}
}
