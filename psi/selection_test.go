package psi

import (
	"errors"
	"testing"
	"time"

	"remshell/job"
	"remshell/plan/nodeset"
)

// A rank file overrides the node sets of cluster and class, and contradicts those of the user.
func TestSetsBesideARankFile(t *testing.T) {
	spec := "ONEOF:FEATURE:a"
	in := Input{RanksPlaced: true, Env: func(string) (string, bool) { return "", false }, Nodes: []job.NodeDef{{Name: "a"}},
		Rules: job.SelectionRules{NodeSetDefaults: nodeset.Level{Spec: &spec}}}
	if c, err := Read(in); err != nil || c.NodeSet.Policy != "" {
		t.Errorf("the cluster's: %+v, %v", c.NodeSet, err)
	}
	in.Flags.Sets.Spec = &spec
	var refused *Error
	if _, err := Read(in); !errors.As(err, &refused) || refused.Code != "bad-node-set" || refused.Source != "--node-set" || refused.Token != spec {
		t.Errorf("the user's: %v", err)
	}
}

// Each option about node sets has a variable, which the option overrides.
func TestVariablesOfSets(t *testing.T) {
	env := map[string]string{"PSI_NODESET": "ONEOF:PROCSPEED", "PSI_NODESET_OPTIONAL": "yes", "PSI_NODESET_TOLERANCE": "50%", "PSI_NODESET_PRIORITY": "BESTRESOURCE",
		"PSI_NODESET_PLUS": "SPANEVENLY DELAY", "PSI_NODESET_DELAY": "5m"}
	in := Input{Nodes: []job.NodeDef{{Name: "a"}}, Env: func(name string) (string, bool) { text, defined := env[name]; return text, defined }}
	c, err := Read(in)
	s := c.NodeSet
	if err != nil || s.Request.String() != "ONEOF:PROCSPEED" || s.Source != "PSI_NODESET" || !s.Optional || s.Tolerance.String() != "0.5" || s.Priority != "BESTRESOURCE" ||
		!s.Plus.SpanEvenly || !s.Plus.Delay || s.Delay != 5*time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	spec := "ONEOF:FEATURE"
	in.Flags.Sets = nodeset.Level{Spec: &spec, Modifiers: map[string]string{nodeset.KeyTolerance: "0", nodeset.KeyPriority: "WORSTFIT", nodeset.KeyOptional: "no", nodeset.KeyDelay: "1"}}
	if c, err = Read(in); err != nil || c.NodeSet.Request.String() != spec || c.NodeSet.Priority != "WORSTFIT" || c.NodeSet.Optional || c.NodeSet.Delay != time.Second || !c.NodeSet.Plus.SpanEvenly {
		t.Errorf("%+v, %v", c.NodeSet, err)
	}
	for name := range env {
		env := map[string]string{name: "wrong"}
		wrong := Input{Nodes: in.Nodes, Env: func(name string) (string, bool) { text, defined := env[name]; return text, defined }}
		var refused *Error
		if _, err := Read(wrong); !errors.As(err, &refused) || refused.Code != "bad-node-set" || refused.Source != name {
			t.Errorf("%s=wrong: %v", name, err)
		}
	}
}

// An affinity applies to the users that it names; to root only if it names root.
func TestAffinityOfUsers(t *testing.T) {
	in := Input{Env: func(string) (string, bool) { return "", false }, Nodes: []job.NodeDef{{Name: "a"}}, User: job.User{UID: 0, GID: 5},
		Rules: job.SelectionRules{Affinity: []job.Affinity{{Value: 1, Access: job.Access{Users: []int{7}}}, {Value: -1, Access: job.Access{Groups: []int{5}}}, {Classes: []string{"c"}}, {}}}}
	c, err := Read(in)
	if err != nil || len(c.Affinity) != 2 || c.Affinity[0].Value != -1 {
		t.Errorf("%+v, %v", c.Affinity, err)
	}
}
