package main

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"
	"unicode"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// segment is github.com/segmentio/kafka-go.
type segment struct {
	login     login
	transport *kafka.Transport
	client    *kafka.Client
}

// bearer is OAUTHBEARER, which the library leaves to its users.
type bearer string

func (bearer) Name() string { return "OAUTHBEARER" }

func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	return b, []byte("n,,\x01auth=Bearer " + string(b) + "\x01\x01"), nil
}

func (bearer) Next(context.Context, []byte) (bool, []byte, error) { return true, nil, nil }

func newSegment(l login) (library, error) {
	var mechanism sasl.Mechanism
	var err error
	switch l.Mechanism {
	case "PLAIN":
		mechanism = plain.Mechanism{Username: l.User, Password: l.Password}
	case "SCRAM-SHA-256":
		mechanism, err = scram.Mechanism(scram.SHA256, l.User, l.Password)
	case "SCRAM-SHA-512":
		mechanism, err = scram.Mechanism(scram.SHA512, l.User, l.Password)
	case "OAUTHBEARER":
		mechanism = bearer(l.Token)
	}
	if err != nil {
		return nil, err
	}
	encryption, err := l.encryption()
	if err != nil {
		return nil, err
	}
	transport := &kafka.Transport{SASL: mechanism, TLS: encryption}
	client := &kafka.Client{Addr: kafka.TCP(l.Bootstrap), Timeout: patience, Transport: transport}
	return segment{l, transport, client}, nil
}

func (s segment) nameOf(err error) string {
	var several kafka.WriteErrors
	if errors.As(err, &several) {
		err = several[0]
	}
	var named kafka.Error
	if errors.As(err, &named) {
		return named.Title()
	}
	return ""
}

// write takes the library's Writer, or its Client, for only that tells how long the broker makes it wait.
func (s segment) write(ctx context.Context, c call) (int64, error) {
	if c.Idempotent {
		return 0, errors.New("kafka-go has no idempotent producer")
	}
	if c.IsTimed {
		return s.timed(ctx, c)
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.login.Bootstrap), Topic: c.Topic, RequiredAcks: kafka.RequireAll, Transport: s.transport,
		BatchSize: 1,
	}
	if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(c.Value)}); err != nil {
		return 0, err
	}
	return 0, writer.Close()
}

func (s segment) timed(ctx context.Context, c call) (int64, error) {
	record := kafka.Record{Value: kafka.NewBytes([]byte(c.Value))}
	answer, err := s.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: c.Topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(record),
	})
	if err != nil {
		return 0, err
	}
	return answer.Throttle.Milliseconds(), answer.Error
}

// stopping is a logger of the library's Reader, which logs a refusal and tries again: it stops the reading instead.
type stopping context.CancelCauseFunc

func (stop stopping) Printf(_ string, words ...any) {
	for _, word := range words {
		var named kafka.Error
		if err, is := word.(error); is && errors.As(err, &named) && !named.Temporary() {
			stop(err)
		}
	}
}

func (s segment) read(ctx context.Context, c call) ([]string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.login.Bootstrap}, GroupID: c.Group, Topic: c.Topic, StartOffset: kafka.FirstOffset,
		MaxWait:     longestFetch,
		Dialer:      &kafka.Dialer{SASLMechanism: s.transport.SASL, TLS: s.transport.TLS, Timeout: patience},
		ErrorLogger: stopping(stop),
	})
	var values []string
	for len(values) < c.Count {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		values = append(values, string(message.Value))
		if err := reader.CommitMessages(ctx, message); err != nil {
			return nil, err
		}
	}
	return values, reader.Close()
}

func (s segment) transact(context.Context, call) error {
	return errors.New("kafka-go has no transactional producer")
}

func (s segment) createACLs(ctx context.Context, c call) error {
	var entries []kafka.ACLEntry
	for _, one := range c.ACLs {
		f, err := filter(one)
		if err != nil {
			return err
		}
		entries = append(entries, kafka.ACLEntry{
			ResourceType: f.ResourceTypeFilter, ResourceName: f.ResourceNameFilter,
			ResourcePatternType: f.ResourcePatternTypeFilter, Principal: f.PrincipalFilter, Host: f.HostFilter,
			Operation: f.Operation, PermissionType: f.PermissionType,
		})
	}
	answer, err := s.client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: entries})
	if err != nil {
		return err
	}
	return errors.Join(answer.Errors...)
}

func (s segment) describeACLs(ctx context.Context, c call) ([]acl, error) {
	var kind kafka.ResourceType
	if err := kind.UnmarshalText(oneWord(c.Kind)); err != nil {
		return nil, err
	}
	answer, err := s.client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kind, ResourceNameFilter: c.Name, ResourcePatternTypeFilter: kafka.PatternTypeMatch,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}})
	if err != nil {
		return nil, err
	}
	var found []acl
	for _, resource := range answer.Resources {
		for _, each := range resource.ACLs {
			found = append(found, acl{
				each.Principal, kafkaWord(each.Operation), kafkaWord(resource.ResourceType), resource.ResourceName,
				kafkaWord(resource.PatternType), kafkaWord(each.PermissionType),
			})
		}
	}
	return found, answer.Error
}

func (s segment) deleteACL(ctx context.Context, c call) ([]acl, error) {
	wanted, err := filter(c.ACLs[0])
	if err != nil {
		return nil, err
	}
	answer, err := s.client.DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{wanted}})
	if err != nil {
		return nil, err
	}
	var deleted []acl
	for _, each := range answer.Results[0].MatchingACLs {
		deleted = append(deleted, acl{
			each.Principal, kafkaWord(each.Operation), kafkaWord(each.ResourceType), each.ResourceName,
			kafkaWord(each.ResourcePatternType), kafkaWord(each.PermissionType),
		})
	}
	return deleted, answer.Results[0].Error
}

func filter(one acl) (kafka.DeleteACLsFilter, error) {
	f := kafka.DeleteACLsFilter{ResourceNameFilter: one.Name, PrincipalFilter: one.Principal, HostFilter: "*"}
	return f, errors.Join(
		f.ResourceTypeFilter.UnmarshalText(oneWord(one.Kind)),
		f.ResourcePatternTypeFilter.UnmarshalText(oneWord(one.Pattern)),
		f.Operation.UnmarshalText(oneWord(one.Operation)),
		f.PermissionType.UnmarshalText(oneWord(one.Permission)),
	)
}

// oneWord turns IDEMPOTENT_WRITE into the library's word.
func oneWord(word string) []byte { return []byte(strings.ReplaceAll(word, "_", "")) }

// kafkaWord turns the library's IdempotentWrite into Kafka's IDEMPOTENT_WRITE.
func kafkaWord(word fmt.Stringer) string {
	if word == kafka.ResourceTypeTransactionalID {
		return "TRANSACTIONAL_ID"
	}
	var letters strings.Builder
	for place, letter := range word.String() {
		if place > 0 && unicode.IsUpper(letter) {
			letters.WriteByte('_')
		}
		letters.WriteRune(unicode.ToUpper(letter))
	}
	return letters.String()
}

// longestFetch is how long a broker may keep a fetch that finds nothing: the library's own is 10 seconds.
const longestFetch = 500 * time.Millisecond

// saltSize is that of Kafka's own clients.
const saltSize = 32

var segmentMechanisms = map[string]kafka.ScramMechanism{
	"SCRAM-SHA-256": kafka.ScramMechanismSha256, "SCRAM-SHA-512": kafka.ScramMechanismSha512,
}

// storePassword salts the password itself: the library takes only a salted one.
func (s segment) storePassword(ctx context.Context, c call) error {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return err
	}
	algorithm := map[string]func() hash.Hash{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New}[c.Mechanism]
	salted, err := pbkdf2.Key(algorithm, c.Password, salt, c.Iterations, algorithm().Size())
	if err != nil {
		return err
	}
	return s.alterPasswords(ctx, &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: c.User, Mechanism: segmentMechanisms[c.Mechanism], Iterations: c.Iterations, Salt: salt,
			SaltedPassword: salted,
		}},
	})
}

func (s segment) deletePassword(ctx context.Context, c call) error {
	return s.alterPasswords(ctx, &kafka.AlterUserScramCredentialsRequest{
		Deletions: []kafka.UserScramCredentialsDeletion{{Name: c.User, Mechanism: segmentMechanisms[c.Mechanism]}},
	})
}

func (s segment) alterPasswords(ctx context.Context, asked *kafka.AlterUserScramCredentialsRequest) error {
	answer, err := s.client.AlterUserScramCredentials(ctx, asked)
	if err != nil {
		return err
	}
	return answer.Results[0].Error
}

func (s segment) describePasswords(ctx context.Context, c call) ([]password, error) {
	answer, err := s.client.DescribeUserScramCredentials(ctx, &kafka.DescribeUserScramCredentialsRequest{
		Users: []kafka.UserScramCredentialsUser{{Name: c.User}},
	})
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	var found []password
	for _, each := range answer.Results[0].CredentialInfos {
		for name, mechanism := range segmentMechanisms {
			if mechanism == each.Mechanism {
				found = append(found, password{name, each.Iterations})
			}
		}
	}
	return found, answer.Results[0].Error
}

func (s segment) alterQuotas(ctx context.Context, c call) error {
	var operations []kafka.AlterClientQuotaOps
	for key, value := range c.Quotas {
		operations = append(operations, kafka.AlterClientQuotaOps{Key: key, Value: value})
	}
	for _, key := range c.Removed {
		operations = append(operations, kafka.AlterClientQuotaOps{Key: key, Remove: true})
	}
	entities := []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: c.User}}
	answer, err := s.client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{
		Entries: []kafka.AlterClientQuotaEntry{{Entities: entities, Ops: operations}},
	})
	if err != nil {
		return err
	}
	return answer.Entries[0].Error
}

func (s segment) describeQuotas(ctx context.Context, c call) (map[string]float64, error) {
	answer, err := s.client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
		Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "user", Match: c.User}}, Strict: true,
	})
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for _, each := range answer.Entries {
		for _, quota := range each.Values {
			found[quota.Key] = quota.Value
		}
	}
	return found, answer.Error
}
