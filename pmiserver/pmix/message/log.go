package message

import "remshell/pmiserver/pmix/bfrops"

// A LogText is text that a rank wants mpiexec to print (pmix-wire.md 6.12).
type LogText struct {
	Stdout bool   // print it to the rank's standard output, else to its standard error
	Text   string // cut after MaxLogText bytes
	Topic  Topic
}

// MaxLogText is the maximum number of bytes of one text that are printed.
const MaxLogText = 64 << 10

// A Topic identifies a help text by the file that contains the text and by the text's name in this file. If many ranks
// send texts with the same topic, only one is printed. Text that is not from a file has no topic (rule PMIX-48).
type Topic struct{ File, Name string }

// Texts returns the texts that the client asks mpiexec to print. all is false if the client also asks for something
// else, such as an entry in the system log or a mail.
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

// helpText decodes a help text in the form that Open MPI 4 sends. The value contains the topic of the text, a flag and
// the text. The flag is 0 if the placeholders of the text have not been filled in; Text is then empty.
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
