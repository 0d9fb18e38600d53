package pmix

import "context"

// GroupFinder knows the groups of the job that have no ranks on this node: parents and children of
// those that are here, and whom these connect to.
type GroupFinder interface {
	// Namespace returns the namespace of a group of the job.
	Namespace(group string) string

	// FindGroup asks mpiexec for the group of a namespace; an error if there is none. It may take its time.
	// When the group is over, Remove says so.
	FindGroup(ctx context.Context, namespace string) (Group, error)
}

// A groupSearch is what is looked for elsewhere. It belongs to Server.mu.
type groupSearch struct {
	clients int             // that look for a group
	ended   map[string]bool // groups that were over meanwhile: the news may come before the answer is read
}

func (x *groupSearch) noteEnded(group string) {
	if x.clients > 0 {
		if x.ended == nil {
			x.ended = make(map[string]bool)
		}
		x.ended[group] = true
	}
}

// findGroup finds the group of a namespace, wherever its ranks are; nil: there is none.
func (s *Server) findGroup(namespace string) *group {
	g := s.groupByNamespace(namespace)
	if g != nil || s.GroupFinder == nil {
		return g
	}
	s.mu.Lock()
	s.search.clients++
	s.mu.Unlock()
	found, err := s.GroupFinder.FindGroup(s.waitCtx, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.search.ended[found.Name]
	if s.search.clients--; s.search.clients == 0 {
		s.search.ended = nil
	}
	if err != nil || over {
		return nil
	}
	return s.addRemoteGroup(found)
}

// addRemoteGroup takes in a group that has no ranks here, unless another client has done so. It needs s.mu.
func (s *Server) addRemoteGroup(found Group) *group {
	for _, g := range s.groups {
		if g.Name == found.Name {
			return g
		}
	}
	g := newGroup(s, found)
	s.groups = append(s.groups, g)
	return g
}
