package message

import "remshell/pmiserver/pmix/bfrops"

// A LogText is text that a rank wants printed (pmix-wire.md 6.12).
type LogText struct {
	Stdout bool   // it goes where the rank's standard output goes; else to its standard error
	Text   string // at most MaxLogText bytes; what is longer is cut
	Topic  Topic
}

// MaxLogText is how many bytes of a text are printed.
const MaxLogText = 64 << 10

// A Topic names what a text is about, so that the same from many ranks is printed once: a file
// of help texts, and the text's name there. No file: it is about nothing in particular (PMIX-48).
type Topic struct{ File, Name string }

// Texts returns what is to be printed, and whether that is all there is to do: nothing is sent
// to a system's log or by mail.
func (l *Log) Texts() (texts []LogText, all bool) {
	file, _ := l.Directives.text("pmix.log.key")
	name, _ := l.Directives.text("pmix.log.val")
	topic := Topic{file, name}
	all = true
	for _, datum := range l.Data {
		text, ok := LogText{}, false
		switch datum.Key {
		case "pmix.log.stderr", "pmix.log.stdout":
			text.Stdout = datum.Key == "pmix.log.stdout"
			text.Text, ok = datum.Value.Text()
			text.Topic = topic
		case "pmix.log.msg":
			text, ok = helpText(datum.Value)
		}
		if all = all && ok; ok {
			text.Text = text.Text[:min(len(text.Text), MaxLogText)]
			texts = append(texts, text)
		}
	}
	return texts, all
}

// helpText reads the form of Open MPI 4: file and name of a help text, whether it has been filled
// in, and the text. If it has not, there is nothing to print.
func helpText(v bfrops.Value) (text LogText, ok bool) {
	blob, ok := v.Blob()
	if !ok {
		return LogText{}, false
	}
	r := bfrops.NewReader(blob)
	text.Topic = Topic{r.Text(), r.Text()}
	if r.Byte() != 0 {
		text.Text = r.Text()
	}
	return text, r.Err() == nil
}

func (o Options) text(key string) (string, bool) {
	v, _ := o.Find(key)
	return v.Text()
}
