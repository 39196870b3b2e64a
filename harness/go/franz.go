package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz is github.com/twmb/franz-go with its package kadm.
type franz struct {
	options []kgo.Opt
}

// waits keeps the longest time that the broker makes the client wait.
type waits struct{ longest atomic.Int64 }

func (w *waits) OnBrokerThrottle(_ kgo.BrokerMetadata, wait time.Duration, _ bool) {
	w.longest.Store(max(w.longest.Load(), wait.Milliseconds()))
}

func newFranz(l login) (library, error) {
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: l.User, Pass: l.Password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: l.User, Pass: l.Password, IsToken: l.IsToken}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: l.User, Pass: l.Password, IsToken: l.IsToken}.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: l.Token}.AsMechanism(),
	}
	encryption, err := l.encryption()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(l.Bootstrap), kgo.SASL(mechanisms[l.Mechanism])}
	if encryption != nil {
		options = append(options, kgo.DialTLSConfig(encryption))
	}
	return franz{options}, nil
}

func (f franz) nameOf(err error) string {
	var named *kerr.Error
	if errors.As(err, &named) {
		return named.Message
	}
	return ""
}

// client opens a client that has logged in.
func (f franz) client(ctx context.Context, more ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(f.options, more...)...)
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func (f franz) write(ctx context.Context, c call) (int64, error) {
	var noted waits
	options := []kgo.Opt{kgo.WithHooks(&noted), kgo.ProducerBatchCompression(kgo.NoCompression())}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := f.client(ctx, options...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	err = client.ProduceSync(ctx, &kgo.Record{Topic: c.Topic, Value: []byte(c.Value)}).FirstErr()
	return noted.longest.Load(), err
}

func (f franz) read(ctx context.Context, c call) ([]string, error) {
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	client, err := f.client(ctx, kgo.ConsumeTopics(c.Topic), kgo.ConsumerGroup(c.Group), start)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var values []string
	for len(values) < c.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, client.CommitUncommittedOffsets(ctx)
}

func (f franz) transact(ctx context.Context, c call) error {
	client, err := f.client(ctx, kgo.TransactionalID(c.TransactionalID))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: c.Topic, Value: []byte("x")}).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func (f franz) admin(ctx context.Context) (*kadm.Client, error) {
	client, err := f.client(ctx)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

func (f franz) createACLs(ctx context.Context, c call) error {
	admin, err := f.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, one := range c.ACLs {
		builder, err := built(one)
		if err != nil {
			return err
		}
		results, err := admin.CreateACLs(ctx, builder)
		if err != nil {
			return err
		}
		for _, result := range results {
			if result.Err != nil {
				return result.Err
			}
		}
	}
	return nil
}

func (f franz) describeACLs(ctx context.Context, c call) ([]acl, error) {
	admin, err := f.admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	builder, err := ofResource(c.Kind, c.Name)
	if err != nil {
		return nil, err
	}
	builder.ResourcePatternType(kadm.ACLPatternMatch).Operations()
	builder.Allow().AllowHosts().Deny().DenyHosts()
	results, err := admin.DescribeACLs(ctx, builder)
	if err != nil {
		return nil, err
	}
	var found []acl
	for _, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		for _, each := range result.Described {
			found = append(found, inWords(each))
		}
	}
	return found, nil
}

func (f franz) deleteACL(ctx context.Context, c call) ([]acl, error) {
	admin, err := f.admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	builder, err := built(c.ACLs[0])
	if err != nil {
		return nil, err
	}
	results, err := admin.DeleteACLs(ctx, builder)
	if err != nil {
		return nil, err
	}
	var deleted []acl
	for _, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		for _, each := range result.Deleted {
			if each.Err != nil {
				return nil, each.Err
			}
			deleted = append(deleted, inWords(kadm.DescribedACL{
				Principal: each.Principal, Host: each.Host, Type: each.Type, Name: each.Name, Pattern: each.Pattern,
				Operation: each.Operation, Permission: each.Permission,
			}))
		}
	}
	return deleted, nil
}

func ofResource(kind, name string) (*kadm.ACLBuilder, error) {
	builder := kadm.NewACLs()
	switch kind {
	case "TOPIC":
		return builder.Topics(name), nil
	case "GROUP":
		return builder.Groups(name), nil
	case "TRANSACTIONAL_ID":
		return builder.TransactionalIDs(name), nil
	case "CLUSTER":
		return builder.Clusters(), nil
	}
	return nil, fmt.Errorf("there is no resource %q", kind)
}

func built(one acl) (*kadm.ACLBuilder, error) {
	builder, err := ofResource(one.Kind, one.Name)
	if err != nil {
		return nil, err
	}
	operation, err := kmsg.ParseACLOperation(one.Operation)
	if err != nil {
		return nil, err
	}
	pattern, err := kmsg.ParseACLResourcePatternType(one.Pattern)
	if err != nil {
		return nil, err
	}
	builder.Operations(operation).ResourcePatternType(pattern)
	if one.Permission == "DENY" {
		return builder.Deny(one.Principal).DenyHosts("*"), nil
	}
	return builder.Allow(one.Principal).AllowHosts("*"), nil
}

func inWords(found kadm.DescribedACL) acl {
	return acl{
		found.Principal, found.Operation.String(), found.Type.String(), found.Name, found.Pattern.String(),
		found.Permission.String(),
	}
}

var franzMechanisms = map[string]kadm.ScramMechanism{
	"SCRAM-SHA-256": kadm.ScramSha256, "SCRAM-SHA-512": kadm.ScramSha512,
}

func (f franz) alterPasswords(ctx context.Context, removed []kadm.DeleteSCRAM, stored []kadm.UpsertSCRAM) error {
	admin, err := f.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	altered, err := admin.AlterUserSCRAMs(ctx, removed, stored)
	if err != nil {
		return err
	}
	return altered.Error()
}

func (f franz) storePassword(ctx context.Context, c call) error {
	stored := kadm.UpsertSCRAM{
		User: c.User, Mechanism: franzMechanisms[c.Mechanism], Iterations: int32(c.Iterations), Password: c.Password,
	}
	return f.alterPasswords(ctx, nil, []kadm.UpsertSCRAM{stored})
}

func (f franz) deletePassword(ctx context.Context, c call) error {
	removed := kadm.DeleteSCRAM{User: c.User, Mechanism: franzMechanisms[c.Mechanism]}
	return f.alterPasswords(ctx, []kadm.DeleteSCRAM{removed}, nil)
}

func (f franz) describePasswords(ctx context.Context, c call) ([]password, error) {
	admin, err := f.admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	described, err := admin.DescribeUserSCRAMs(ctx, c.User)
	if err != nil {
		return nil, err
	}
	if err := described.Error(); err != nil {
		return nil, err
	}
	var found []password
	for _, each := range described[c.User].CredInfos {
		found = append(found, password{each.Mechanism.String(), int(each.Iterations)})
	}
	return found, nil
}

func (f franz) alterQuotas(ctx context.Context, c call) error {
	admin, err := f.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	entry := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &c.User}}}
	for key, value := range c.Quotas {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: value})
	}
	for _, key := range c.Removed {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
	}
	altered, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
	if err != nil {
		return err
	}
	return altered[0].Err
}

func (f franz) describeQuotas(ctx context.Context, c call) (map[string]float64, error) {
	admin, err := f.admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	wanted := []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &c.User}}
	described, err := admin.DescribeClientQuotas(ctx, true, wanted)
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for _, each := range described {
		for _, quota := range each.Values {
			found[quota.Key] = quota.Value
		}
	}
	return found, nil
}
