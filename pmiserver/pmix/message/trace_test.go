package message_test

import (
	"regexp"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

func TestTrace(t *testing.T) {
	const namespace = "rs-0123456789abcdef@1"
	all := []bfrops.Proc{{Namespace: namespace, Rank: bfrops.Wildcard}}
	holds := func(key string) bfrops.Info { return bfrops.Info{Key: key, Value: bfrops.FlagOf(true)} }
	pairs := bfrops.AppendPair(bfrops.AppendPair(nil, "btl.tcp.4.1", bfrops.BlobOf(make([]byte, 60))), "a key", bfrops.TextOf("v"))
	for _, test := range []struct {
		request message.Request
		want    string
	}{
		{&message.Req{}, "REQ"},
		{&message.Finalize{}, "FINALIZE"},
		{&message.Abort{Code: -3, Message: "N/A"}, `ABORT -3 "N/A" []`},
		{&message.Commit{Parts: []message.CommitPart{{Scope: message.ScopeRemote, Pairs: pairs}}}, `COMMIT remote btl.tcp.4.1=0x` + strings.Repeat("0", 64) + `... (60 bytes) "a key"="v"`},
		{&message.Fence{Procs: all, Options: message.Options{holds("pmix.collect"), timeout}}, "FENCE [rs-..@1:*] collect timeout=9"},
		{&message.Get{Namespace: namespace, Rank: 3, Key: "k"}, "GET rs-..@1:3 k"},
		{&message.Get{Namespace: "odd\nname"}, `GET "odd\nname":0 ""`},
		{&message.Publish{Infos: message.Options{{Key: "svc", Value: bfrops.TextOf("at " + namespace)}, {Key: "pmix.persist", Value: bfrops.Uint16Of(1)}}}, `PUBLISH svc="at rs-..@1" persist=1`},
		{&message.Lookup{Keys: []string{"svc"}, Options: message.Options{holds("pmix.wait")}}, "LOOKUP svc wait"},
		{&message.Unpublish{Keys: []string{strings.Repeat("k", 33)}}, "UNPUBLISH " + strings.Repeat("k", 33)},
		{&message.Spawn{Programs: []bfrops.Program{{Command: "./a b", Ranks: 3}}}, `SPAWN "./a b" in 3 ranks`},
		{&message.Connect{Procs: make([]bfrops.Proc, 10)}, `CONNECT [` + strings.Repeat(`"":0 `, 8) + `and 2 more]`},
		{&message.Disconnect{Procs: all}, "DISCONNECT [rs-..@1:*]"},
		{&message.Notify{Event: message.ModelDeclared, Range: message.InJob}, "NOTIFY -147 range 4"},
		{&message.RegEvents{Codes: []int32{-147}}, "REGEVENTS -147"},
		{&message.DeregEvents{Codes: []int32{-1 << 31}}, "DEREGEVENTS -2147483648"},
		{&message.Query{Questions: []bfrops.Question{{Keys: []string{"pmix.qry.psetnum"}, Qualifiers: []bfrops.Info{holds("pmix.qry.rfsh")}}}}, "QUERY pmix.qry.psetnum qry.rfsh"},
		{&message.Log{Data: message.Options{{Key: "pmix.log.stderr", Value: bfrops.TextOf("x\n")}}}, `LOG log.stderr="x\n"`},
		{&message.JobControl{Procs: all, Directives: message.Options{{Key: "pmix.reg.cleanup", Value: bfrops.TextOf("/a")}}}, `JOB_CONTROL [rs-..@1:*] reg.cleanup="/a"`},
		{&message.GroupConstruct{ID: "g", Procs: all, Options: message.Options{{Key: "pmix.procid", Value: bfrops.ProcOf(all[0])}}}, "GROUP_CONSTRUCT g [rs-..@1:*] procid=rs-..@1:*"},
		{&message.GroupDestruct{ID: "g", Procs: all, Options: message.Options{{Key: "x", Value: bfrops.InfosOf()}}}, "GROUP_DESTRUCT g [rs-..@1:*] x=0x0018000f0000000000000000"},
	} {
		if got := message.Trace(test.request); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// The trace of each recorded request is one line, and hides the secret in its namespaces.
func TestTraceOfRecordedRequests(t *testing.T) {
	namespace := regexp.MustCompile(`rs-[0-9a-f]{4}-[0-9]`)
	for _, m := range pmixtest.Read(t).ClientMessages() {
		request, err := message.Parse(m.Body())
		if err != nil {
			t.Fatal(err)
		}
		line := message.Trace(request)
		if !strings.HasPrefix(line, m.Kind) || strings.ContainsAny(line, "\n\r\x1b\x00") || len(line) > 2_000 || namespace.MatchString(line) {
			t.Errorf("%s: %s", m.Kind, line)
		}
	}
}
