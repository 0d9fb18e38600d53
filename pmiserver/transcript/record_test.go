package transcript

import (
	"strings"
	"testing"
)

// Replies stand where ReadCases expects them, in whatever order they were recorded.
func TestRecorder(t *testing.T) {
	var r Recorder
	for _, line := range []string{
		"0< cmd=barrier_in",
		"1< cmd=barrier_in",
		"1> cmd=barrier_out",
		"1<; cmd=info-getnodeattr;key=x;wait=TRUE;",
		"0> cmd=barrier_out",
		"0< cmd=initack pmiid=1",
		"0> cmd=initack",
		"0> cmd=set size=2",
		"0> cmd=set rank=0",
		"0> cmd=set debug=0",
		"0<; cmd=info-putnodeattr;key=x;value=1;",
		"0>; cmd=info-putnodeattr-response;rc=0;",
		"1>; cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;",
	} {
		r.Trace(0, int(line[0]-'0'), line[1:])
	}
	r.AddEvent(1, 0, "EOF")
	r.AddReply(1, 0, "CLOSED")
	var got strings.Builder
	if err := r.Write(&got, "1 a title", "spawns=a", []int{2, 1}); err != nil {
		t.Fatal(err)
	}
	const want = `case 1 a title
job spawns=a
0< cmd=barrier_in
1< cmd=barrier_in
0> cmd=barrier_out
1> cmd=barrier_out
1<; cmd=info-getnodeattr;key=x;wait=TRUE;
0< cmd=initack pmiid=1
0> cmd=initack
0> cmd=set size=2
0> cmd=set rank=0
0> cmd=set debug=0
0<; cmd=info-putnodeattr;key=x;value=1;
0>; cmd=info-putnodeattr-response;rc=0;
1>; cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;
1:0< EOF
1:0> CLOSED
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if _, err := ReadCases("x", strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
