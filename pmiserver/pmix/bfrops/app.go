package bfrops

import "math"

// A Question is an element of type QUERY. It contains keys whose values a client requests, and qualifiers.
type Question struct {
	Keys       []string
	Qualifiers []Info
}

// A Variable is an element of type ENVAR. It contains an environment variable and, if the value is a list, the byte
// that separates its items.
type Variable struct {
	Name, Value string
	Separator   byte
}

// A Program is an element of type APP, which describes a program to spawn.
type Program struct {
	Command     string
	Args        []string // including Args[0]
	Environment []string // NAME=VALUE
	Dir         string
	Ranks       int // at least 0
	Options     []Info
}

func (e *elementReader) query() Question {
	keys := e.texts(int64(int32(e.uint32())))
	return Question{keys, e.infos()}
}

func (e *elementReader) envar() Variable {
	name := e.text()
	value := e.text()
	return Variable{name, value, e.uint8()}
}

func (e *elementReader) app() (p Program) {
	p.Command = e.text()
	p.Args = e.texts(e.anyNumber())
	p.Environment = e.texts(int64(int32(e.uint32())))
	p.Dir = e.text()
	ranks := e.anyNumber()
	if ranks < 0 || ranks > math.MaxInt32 {
		e.fail(ErrBound, "the spawn request asks for %d ranks", ranks)
	}
	p.Ranks = int(ranks)
	p.Options = e.infos()
	return p
}

// texts reads n strings, which are part of an element.
func (e *elementReader) texts(n int64) []string {
	if n < 0 {
		e.fail(ErrMalformed, "%d texts", n)
	}
	if n <= 0 {
		return nil
	}
	all := make([]string, e.checkCount(uint64(n), elementSizes[String].bytes))
	for i := range all {
		all[i] = e.text()
	}
	return all
}

// infos reads a SIZE and that number of INFOs, which are part of an element.
func (e *elementReader) infos() []Info {
	n := e.size()
	if n > MaxInfos {
		e.fail(ErrBound, "%d options are too many; at most %d are allowed", n, MaxInfos)
		return nil
	}
	all := make([]Info, e.checkCount(n, elementSizes[InfoType].bytes))
	for i := range all {
		all[i] = e.info()
	}
	return all
}
