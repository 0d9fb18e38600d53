package psi

import (
	"errors"
	"testing"

	"remshell/job"
	"remshell/plan/nodeset"
)

// A rank file beats what cluster and class ask for, and contradicts what the user asks for.
func TestSetsBesideARankFile(t *testing.T) {
	spec := "ONEOF:FEATURE:a"
	in := Input{Placed: true, Env: func(string) (string, bool) { return "", false }, Nodes: []job.NodeDef{{Name: "a"}},
		Rules: job.Rules{Sets: nodeset.Level{Spec: &spec}}}
	if c, err := Read(in); err != nil || c.Set.Policy != "" {
		t.Errorf("the cluster's: %+v, %v", c.Set, err)
	}
	in.Flags.Sets.Spec = &spec
	var refused *Error
	if _, err := Read(in); !errors.As(err, &refused) || refused.Code != "bad-node-set" || refused.Source != "--node-set" || refused.Token != spec {
		t.Errorf("the user's: %v", err)
	}
}

// An affinity is for those whom it names; root is one of them only if it is named.
func TestAffinityOfUsers(t *testing.T) {
	in := Input{Env: func(string) (string, bool) { return "", false }, Nodes: []job.NodeDef{{Name: "a"}}, User: job.User{UID: 0, GID: 5},
		Rules: job.Rules{Affinity: []job.Affinity{{Value: 1, Access: job.Access{Users: []int{7}}}, {Value: -1, Access: job.Access{Groups: []int{5}}}, {Classes: []string{"c"}}, {}}}}
	c, err := Read(in)
	if err != nil || len(c.Affinity) != 2 || c.Affinity[0].Value != -1 {
		t.Errorf("%+v, %v", c.Affinity, err)
	}
}
