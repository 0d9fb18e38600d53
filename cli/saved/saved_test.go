package saved

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/restart"
	"remshell/usererr"
)

// fill sets each field to a different value that is not zero. It fails for a type that the format does not support.
func fill(t *testing.T, v reflect.Value, at string, n *int64) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000+*n, 123456789).UTC()))
			return
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				t.Errorf("%s.%s would be lost: it is not exported", at, field.Name)
				continue
			}
			fill(t, v.Field(i), at+"."+field.Name, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), at, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), at+"[0]", n)
		fill(t, v.Index(1), at+"[1]", n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		name := reflect.New(v.Type().Key()).Elem()
		name.SetString(fmt.Sprint("key ", *n))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, at, n)
		v.SetMapIndex(name, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("<%d> & \xff\x00\u2028", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 3)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*n%100 + 1)
	default:
		t.Errorf("%s is a %s, which the form has no way to write", at, v.Type())
	}
}

// sample returns a request for a saved job.
func sample() job.Request {
	return job.Request{Job: "j-1", Apps: []job.App{{N: 4, Argv: []string{"./a", "\xff"}}}, Nodes: []job.NodeDef{{Name: "n1"}, {ID: 1, Name: "n2"}},
		HostEntries: []int{1, 0}, Restart: job.RestartPolicy{MaxRestarts: 3, On: []job.EndKind{job.EndByNodeLoss}, Saved: true}, SignalPolicy: job.SignalPolicy{Forward: []int{}}}
}

// Each field of a request is saved and decoded without change (SV-20).
func TestWholeRequest(t *testing.T) {
	req := new(job.Request)
	n := int64(0)
	fill(t, reflect.ValueOf(req).Elem(), "request", &n)
	if n < 200 {
		t.Errorf("only %d values filled in: this test does it wrongly", n)
	}
	text := New(*req, nil).Encode()
	j, err := decodeJob(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(j.Request, req) {
		t.Errorf("it comes back as\n%+v\nand was\n%+v", j.Request, req)
	}
	if again := j.Encode(); string(again) != string(text) {
		t.Errorf("it is written otherwise when it was read:\n%s\n%s", again, text)
	}
}

// Nil and empty lists differ after decoding, and fields of later versions are kept.
func TestWhatIsKept(t *testing.T) {
	text := strings.Replace(string(New(sample(), nil).Encode()), "{", `{"later": {"b":1,"a":[null]},`, 1)
	j, err := Decode("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if r := j.Request; r.SignalPolicy.Forward == nil || len(r.SignalPolicy.Forward) != 0 || r.Streams.ShownRanks != nil || r.Apps[0].Argv[1] != "\xff" {
		t.Errorf("it comes back as %+v", *r)
	}
	if again, err := Decode("f", j.Encode()); err != nil || string(again.unknownFields["later"]) == "" {
		t.Errorf("a field that is not known was lost (%v)", err)
	}
}

// attempts returns attempts that have ended, one of each kind.
func attempts(kinds ...job.EndKind) (all []job.Attempt) {
	for i, kind := range kinds {
		all = append(all, job.Attempt{Number: i, Began: time.Unix(int64(100*i), 0).UTC(), Ended: time.Unix(int64(100*i+60), 0).UTC(), Kind: kind,
			Reason: "host_lost", Nodes: []string{"n1", "n2"}, Size: 4, Lost: []string{"n2"}, Exit: 125})
	}
	return all
}

// How an mpiexec resumes a job, depending on the state of the saved job (SV-21, SV-22).
func TestResume(t *testing.T) {
	runs := job.Attempt{Number: 1, Began: time.Unix(100, 0).UTC(), Nodes: []string{"n1"}, Size: 3}
	fresh, one, two := New(sample(), nil), attempts(job.EndByNodeLoss), attempts(job.EndByNodeLoss, job.EndByNodeLoss)
	for _, test := range []struct {
		name string
		job  Job
		want string // state, attempt, variables of the ranks, and the nodes where ranks may still run
	}{
		{"it waited", fresh, "stopped -1: attempt 0, 3 left, because of ; clean "},
		{"^C while it waited", fresh.WithEnded(nil, 130, time.Now()), "stopped -1: attempt 0, 3 left, because of ; clean "},
		{"killed in the first", fresh.WithRunning(nil, job.Attempt{Nodes: []string{"n1", "n2"}, Size: 4}), "running 0: attempt 1, 3 left, because of resume; clean n1,n2"},
		{"killed in the second", fresh.WithRunning(one, runs), "running 1: attempt 2, 2 left, because of resume; clean n1"},
		{"given up", fresh.WithRunning(nil, job.Attempt{}).WithEnded(two, 125, time.Now()), "ended 1: attempt 2, 2 left, because of resume; clean n2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, err := Decode("f", test.job.Encode())
			if err != nil {
				t.Fatal(err)
			}
			s := j.Resume(time.Unix(1000, 0))
			given := restart.NextRequest(s.Request, s.Past).GlobalEnv
			value := func(name string) string { return job.EnvValue(given, "MPIEXEC_"+name) }
			got := fmt.Sprintf("%s %d: attempt %s, %s left, because of %s; clean %s", j.State, j.Attempt, value("ATTEMPT"), value("RESTARTS_LEFT"),
				value("RESTART_REASON"), strings.Join(s.MaybeAlive, ","))
			if got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// A resumed job has only those restarts left that were not used before.
func TestRestartsThatAreLeft(t *testing.T) {
	j := New(sample(), nil).WithRunning(attempts(job.EndByNodeLoss), job.Attempt{Number: 1, Nodes: []string{"n1"}, Size: 4})
	s := j.Resume(time.Unix(1000, 0))
	past := s.Past
	for i, want := range []restart.Decision{{Restarts: true, Pause: 5 * time.Second}, {Restarts: true, Pause: 10 * time.Second}, {Why: "--restart 2 allows no more restarts"}} {
		past = append(past, job.Attempt{Number: len(past), Kind: job.EndByNodeLoss, Ended: time.Unix(60, 0), Began: time.Unix(0, 0)})
		if got := restart.Decide(s.Request.Restart, past, 0); got != want {
			t.Errorf("after %d attempts: %+v, want %+v", i+1, got, want)
		}
		if want.Restarts && restart.RestartNumber(s.Request.Restart, past) != fmt.Sprintf("%d of 2", i+1) {
			t.Errorf("restart %d is told as %s", i+1, restart.RestartNumber(s.Request.Restart, past))
		}
	}
}

// A job that ended between a migration and the next attempt may run on any nodes when it is resumed, except for those
// that it was to leave: the new nodes are no longer claimed.
func TestResumeOfAMigratedJob(t *testing.T) {
	past := attempts(job.EndByMove)
	past[0].LeftNodes, past[0].NextNodes = []string{"n1"}, []string{"n3"}
	j, err := Decode("f", New(sample(), past).WithEnded(past, 130, time.Now()).Encode())
	if err != nil {
		t.Fatal(err)
	}
	s := j.Resume(time.Unix(1000, 0))
	for _, n := range restart.NextRequest(s.Request, s.Past).Nodes {
		if want := map[string]string{"n1": "the job was moved away from this host"}[n.Name]; n.ExcludedWhy != want {
			t.Errorf("%s: %q, want %q", n.Name, n.ExcludedWhy, want)
		}
	}
}

// Each field of an attempt is saved.
func TestWholeAttempt(t *testing.T) {
	past := make([]job.Attempt, 1)
	n := int64(0)
	fill(t, reflect.ValueOf(&past[0]).Elem(), "attempt", &n)
	past[0].Number, past[0].Kind, past[0].NextNodes = 0, job.EndByResume, nil
	j, err := Decode("f", New(sample(), past).Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Resume(time.Unix(1000, 0)).Past; !reflect.DeepEqual(got, past) {
		t.Errorf("it comes back as\n%+v\nand was\n%+v", got, past)
	}
}

func TestEndedWell(t *testing.T) {
	ended := New(sample(), nil).WithRunning(nil, job.Attempt{}).WithEnded(attempts(""), 0, time.Now())
	if err := ended.CheckResumable(false); err == nil || err.Error() != "the job has already succeeded (exit code 0)" || usererr.Hint(err) != "to start the job again, add --again" {
		t.Errorf("%v; %s", err, usererr.Hint(err))
	}
	if err := ended.CheckResumable(true); err != nil {
		t.Error(err)
	}
	ended.Exit = 3
	if err := ended.CheckResumable(false); err != nil {
		t.Error(err)
	}
}

// A file that is no saved job is rejected with the place of the error (SV-23).
func TestNoSavedJob(t *testing.T) {
	good := string(New(sample(), nil).Encode())
	for _, test := range []struct{ old, new, want string }{
		{"{", "x", "f:1: invalid character 'x'"},
		{"\"state\": \"stopped\",", "\"state\" \"stopped\",", "f:4: invalid character"},
		{`"version": 2`, `"version": 1`, "version 1 is not supported; this mpiexec reads version 2"},
		{`"version": 2`, `"version": "1"`, `version "1" is not supported`},
		{`"version": 2,`, ``, "version none is not supported"},
		{`"state": "stopped"`, `"state": "dead"`, "state: the value must be stopped, running or ended"},
		{`"job": "j-1"`, `"job": "../j"`, "job: the value is not a job ID of at most 40 letters"},
		{`"job": "j-1"`, `"job": "j-2"`, "request: its job ID differs from the ID of the saved job"},
		{`"attempt": -1`, `"attempt": 7`, "attempt: the number does not fit"},
		{`"attempt": -1`, `"attempt": 1.5`, "attempt: the value must be a whole number"},
		{`"N": 4`, `"N": "4"`, "request.Apps[0].N: the value must be a whole number"},
		{`"N": 4`, `"N": -4`, "request.Apps[0]: the program or the number of ranks is missing"},
		{`"Name": "n2"`, `"Name": "n1"`, "request.Nodes[1]: the name is missing or not unique"},
		{`"Name": "n2"`, `"Name": ["n1"]`, "request.Nodes[1].Name: the value must be a string"},
		{`"MaxRestarts": 3`, `"MaxRestarts": 99999999999999999999`, "request.Restart.MaxRestarts: the value must be a whole number"},
		{`"base64": "/w=="`, `"base64": "?"`, "the value must be a string, or an object with the key base64"},
	} {
		if !strings.Contains(good, test.old) {
			t.Fatalf("%q is not in\n%s", test.old, good)
		}
		_, err := Decode("f", []byte(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), "saved job f") || !strings.Contains(err.Error(), test.want) || usererr.Hint(err) == "" {
			t.Errorf("%s: %v, want %s", test.new, err, test.want)
		}
	}
}

// Any file is rejected, or decodes to a job that is the same after it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add(New(sample(), nil).Encode())
	f.Add(New(sample(), nil).WithRunning(attempts(job.EndByNodeLoss), job.Attempt{Number: 1, Nodes: []string{"n1"}}).Encode())
	if text, err := os.ReadFile("testdata/job.json"); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := Decode("f", text)
		if err != nil {
			return
		}
		s := j.Resume(time.Unix(1000, 0))
		restart.NextRequest(s.Request, s.Past)
		again, err := Decode("f", j.Encode())
		if err != nil {
			t.Fatalf("%v:\n%s", err, j.Encode())
		}
		if again.unknownFields, j.unknownFields = nil, nil; !slices.Equal(again.Encode(), j.Encode()) {
			t.Errorf("%s\nis written as\n%s", j.Encode(), again.Encode())
		}
	})
}

// A saved job of an earlier build is rejected with what to do.
func TestSavedJobOfAnEarlierBuildSaysWhatToDo(t *testing.T) {
	old := strings.Replace(string(New(sample(), nil).Encode()), `"version": 2`, `"version": 1`, 1)
	_, err := Decode("f", []byte(old))
	if err == nil || err.Error() != "saved job f: version 1 is not supported; this mpiexec reads version 2" || usererr.Hint(err) != "an earlier version of mpiexec saved the job; resume it with that version, or start the job again" {
		t.Errorf("%v; %s", err, usererr.Hint(err))
	}
}

// Errors name the keys that the file has.
func TestErrorsOfASavedJobNameItsKeys(t *testing.T) {
	for _, test := range []struct {
		change func(*job.Request)
		want   string
	}{
		{func(req *job.Request) { req.HostEntries = []int{99} }, `saved job f: request.HostEntries: a node does not exist in request.Nodes`},
		{func(req *job.Request) { req.FixedPlacements = []job.FixedPlacement{{Node: 99}} }, `saved job f: request.FixedPlacements: a node does not exist in request.Nodes`},
	} {
		req := sample()
		test.change(&req)
		if _, err := Decode("f", New(req, nil).Encode()); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// A file written by an early version is still read (SV-23).
func TestOlderFile(t *testing.T) {
	text, err := os.ReadFile("testdata/job.json")
	if err != nil {
		t.Fatal(err)
	}
	j, err := Decode("testdata/job.json", text)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	if !reflect.DeepEqual(*j.Request, want) || j.State != Running || j.Attempt != 1 || !slices.Equal(j.Nodes, []string{"n1"}) {
		t.Errorf("it is read as %+v with\n%+v\nwant\n%+v", j, *j.Request, want)
	}
}
