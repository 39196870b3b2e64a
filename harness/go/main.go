// Runs one call of a Go client library, the Go side of harness/clients/go_clients.py.
//
// The argument names the library. Standard input has the call as JSON, standard output gets the answer as one line.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

const patience = 60 * time.Second

// login is a user with its mechanism and its listener.
type login struct {
	Bootstrap string `json:"bootstrap"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	// CA is the file of the authority's certificate; empty without TLS.
	CA string `json:"ca"`
	// Token is for OAUTHBEARER.
	Token string `json:"token"`
	// IsToken says that the user is a delegation token.
	IsToken bool `json:"is_token"`
}

// acl is an ACL for every host; the words are Kafka's.
type acl struct {
	Principal  string `json:"principal"`
	Operation  string `json:"operation"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Pattern    string `json:"pattern"`
	Permission string `json:"permission"`
}

// password is what a broker tells of a user's password.
type password struct {
	Mechanism  string `json:"mechanism"`
	Iterations int    `json:"iterations"`
}

type call struct {
	Login login  `json:"login"`
	Call  string `json:"call"`

	Topic           string `json:"topic"`
	Value           string `json:"value"`
	Idempotent      bool   `json:"idempotent"`
	IsTimed         bool   `json:"is_timed"`
	Group           string `json:"group"`
	Count           int    `json:"count"`
	TransactionalID string `json:"transactional_id"`

	ACLs []acl  `json:"acls"`
	Kind string `json:"kind"`
	Name string `json:"name"`

	User       string `json:"user"`
	Mechanism  string `json:"mechanism"`
	Password   string `json:"password"`
	Iterations int    `json:"iterations"`

	Quotas  map[string]float64 `json:"quotas"`
	Removed []string           `json:"removed"`
}

type answer struct {
	Result any `json:"result"`
	// Error is the library's own name of the error, empty if there is none.
	Error string `json:"error"`
	Text  string `json:"text"`
}

// library is one client library. Each method is one call of the tests.
type library interface {
	// write writes one record and returns how long the broker makes the client wait, in milliseconds.
	write(ctx context.Context, c call) (int64, error)
	read(ctx context.Context, c call) ([]string, error)
	transact(ctx context.Context, c call) error

	createACLs(ctx context.Context, c call) error
	describeACLs(ctx context.Context, c call) ([]acl, error)
	// deleteACL returns the ACLs that it has deleted.
	deleteACL(ctx context.Context, c call) ([]acl, error)

	storePassword(ctx context.Context, c call) error
	describePasswords(ctx context.Context, c call) ([]password, error)
	deletePassword(ctx context.Context, c call) error

	alterQuotas(ctx context.Context, c call) error
	describeQuotas(ctx context.Context, c call) (map[string]float64, error)

	// nameOf returns the name of Kafka's error in an error of the library, empty if there is none.
	nameOf(err error) string
}

func main() {
	libraries := map[string]func(login) (library, error){"franz-go": newFranz, "kafka-go": newSegment}
	open, known := libraries[os.Args[1]]
	if !known {
		fail(fmt.Errorf("there is no library %q", os.Args[1]))
	}
	var asked call
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	used, err := open(asked.Login)
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := run(ctx, used, asked)
	told := answer{Result: result}
	if err != nil {
		told = answer{Error: used.nameOf(err), Text: err.Error()}
		if told.Error == "" {
			fail(err)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		fail(err)
	}
}

func run(ctx context.Context, used library, asked call) (any, error) {
	switch asked.Call {
	case "write":
		return used.write(ctx, asked)
	case "read":
		return used.read(ctx, asked)
	case "transact":
		return nil, used.transact(ctx, asked)
	case "create ACLs":
		return nil, used.createACLs(ctx, asked)
	case "describe ACLs":
		return used.describeACLs(ctx, asked)
	case "delete ACL":
		return used.deleteACL(ctx, asked)
	case "store password":
		return nil, used.storePassword(ctx, asked)
	case "describe passwords":
		return used.describePasswords(ctx, asked)
	case "delete password":
		return nil, used.deletePassword(ctx, asked)
	case "alter quotas":
		return nil, used.alterQuotas(ctx, asked)
	case "describe quotas":
		return used.describeQuotas(ctx, asked)
	}
	return nil, fmt.Errorf("there is no call %q", asked.Call)
}

// encryption returns the settings of TLS, nil without.
func (l login) encryption() (*tls.Config, error) {
	if l.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(l.CA)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + l.CA)
	}
	return &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
