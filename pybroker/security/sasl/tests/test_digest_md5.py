"""DIGEST-MD5: the example of RFC 2831, ZooKeeper's challenge, and invalid ones."""

from __future__ import annotations

import pytest

from pybroker.security.sasl.digest_md5 import DigestError, DigestMd5

OF_RFC = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8',
    b"rspauth=ea40f60335c427b5527b84dbabcdfffd",
)
OF_ZOOKEEPER = b'realm="zk-sasl-md5",nonce="n/+=",charset=utf-8,algorithm=md5-sess'


def login(user: str = "kafka", password: str = "secret") -> DigestMd5:
    return DigestMd5(user, password, "zookeeper/zk-sasl-md5", "cnonce")


def test_the_example_of_the_rfc() -> None:
    digest = DigestMd5("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    assert digest.answer(OF_RFC[0]) == (
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,'
        b'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,'
        b"qop=auth"
    )
    digest.check(OF_RFC[1])


@pytest.mark.parametrize("last", [b"", b"rspauth=", b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"x"])
def test_a_server_that_does_not_know_the_password_is_found_out(last: bytes) -> None:
    digest = DigestMd5("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    digest.answer(OF_RFC[0])
    with pytest.raises(DigestError):
        digest.check(last)


def test_a_name_with_quotes_is_escaped_and_of_several_realms_the_first_counts() -> None:
    answer = login('a"b\\c').answer(b'realm="one",realm="two",' + OF_ZOOKEEPER.partition(b",")[2])
    assert rb'username="a\"b\\c",realm="one",' in answer


def test_a_password_is_encoded_in_latin_1_if_possible() -> None:
    def response(charset: bytes, password: str) -> bytes:
        answer = login(password=password).answer(b'nonce="n",algorithm=md5-sess' + charset)
        return answer.partition(b"response=")[2]

    assert response(b",charset=utf-8", "café") == response(b"", "café")
    assert response(b",charset=utf-8", "пароль")
    with pytest.raises(DigestError, match="it does not accept UTF-8"):
        response(b"", "пароль")


@pytest.mark.parametrize(
    "challenge",
    [
        b"x",
        b'realm="zk-sasl-md5",algorithm=md5-sess',
        b'nonce="n"',
        b'nonce="n",algorithm=md5',
        b'nonce="n',
        OF_ZOOKEEPER + b',qop="auth-int,auth-conf"',
        b"\xff\x00",
    ],
)
def test_a_foreign_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(DigestError):
        login().answer(challenge)
